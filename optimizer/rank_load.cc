#include "optimizer/rank_load.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "collectives/data_type.h"
#include "optimizer/owner_assignment.h"
#include "optimizer/shard_groups.h"
#include "optimizer/wire_bytes.h"

namespace muonshard {
namespace {

void Add(const RankLoad& more, RankLoad& load) {
  load.newton_schulz_flops += more.newton_schulz_flops;
  load.state_bytes += more.state_bytes;
  load.scratch_bytes = std::max(load.scratch_bytes, more.scratch_bytes);
  load.buffer_bytes += more.buffer_bytes;
}

// The loads of one bucket class, by group rank.
class ClassLoads {
 public:
  ClassLoads(const BucketClass& bucket_class, bool master_weights)
      : class_(bucket_class),
        master_weights_(master_weights),
        of_group_rank_(static_cast<size_t>(bucket_class.group_size)) {}

  void AddUnit(const Unit& unit) {
    RankLoad& load = of_group_rank_[static_cast<size_t>(unit.owner)];
    load.newton_schulz_flops += unit.flops;
    load.state_bytes += unit.state_bytes;
    load.scratch_bytes = std::max(load.scratch_bytes, unit.scratch_bytes);
  }

  void AddBucket(const Bucket& bucket) {
    const int64_t bytes_per_element = static_cast<int64_t>(
        ByteWidth(class_.gradient_dtype) + ByteWidth(class_.parameter_dtype));
    for (RankLoad& load : of_group_rank_) {
      load.buffer_bytes += bytes_per_element * bucket.count;
    }
    for (const Piece& piece : bucket.pieces) {
      if (piece.rows > 0) continue;
      of_group_rank_[static_cast<size_t>(piece.owner)].state_bytes +=
          piece.count * StateBytesPerElement(Rule::kAdamW,
                                             class_.parameter_dtype,
                                             master_weights_);
    }
  }

  const RankLoad& Of(int32_t group_rank) const {
    return of_group_rank_[static_cast<size_t>(group_rank)];
  }

 private:
  const BucketClass& class_;
  const bool master_weights_;
  std::vector<RankLoad> of_group_rank_;
};

void MeasureRanks(const Classification& classification,
                  const std::vector<Unit>& units,
                  const OptimizerOptions& options, Plan& plan) {
  std::vector<ClassLoads> loads;
  for (const BucketClass& bucket_class : plan.classes) {
    loads.emplace_back(bucket_class, options.master_weights);
  }
  for (const Unit& unit : units) {
    const int32_t bucket_class =
        classification.class_of_parameter[static_cast<size_t>(unit.parameter)];
    loads[static_cast<size_t>(bucket_class)].AddUnit(unit);
  }
  for (const Bucket& bucket : plan.buckets) {
    loads[static_cast<size_t>(bucket.bucket_class)].AddBucket(bucket);
  }
  plan.rank_load.assign(static_cast<size_t>(plan.mesh.size()), {});
  for (size_t c = 0; c < loads.size(); ++c) {
    const RankGroups& groups =
        classification.GroupsOf(static_cast<int32_t>(c)).ranks;
    for (const std::vector<Rank>& group : groups.groups) {
      for (size_t i = 0; i < group.size(); ++i) {
        Add(loads[c].Of(static_cast<int32_t>(i)),
            plan.rank_load[static_cast<size_t>(ToInt(group[i]))]);
      }
    }
  }
}

double PaddingFraction(const std::vector<Bucket>& buckets) {
  int64_t padding = 0;
  int64_t count = 0;
  for (const Bucket& bucket : buckets) {
    count += bucket.count;
    for (const Segment& segment : bucket.segments) padding += segment.padding;
  }
  return static_cast<double>(padding) / static_cast<double>(count - padding);
}

struct GroupUnits {
  std::vector<int64_t> flops;
  const Unit* heaviest = nullptr;
};

std::vector<GroupUnits> UnitsByGroups(const Classification& classification,
                                      const std::vector<Unit>& units) {
  std::vector<GroupUnits> result(classification.groups.size());
  for (const Unit& unit : units) {
    const int32_t bucket_class =
        classification.class_of_parameter[static_cast<size_t>(unit.parameter)];
    const int32_t groups =
        classification.groups_of_class[static_cast<size_t>(bucket_class)];
    GroupUnits& set = result[static_cast<size_t>(groups)];
    set.flops.push_back(unit.flops);
    if (set.heaviest == nullptr || unit.flops > set.heaviest->flops) {
      set.heaviest = &unit;
    }
  }
  return result;
}

// The largest mean load of ranks that no group joins with others: what units
// they have is theirs under every choice of owners.
int64_t MeanBound(const Classification& classification,
                  const std::vector<GroupUnits>& sets) {
  const size_t rank_count = classification.groups.front().ranks.place.size();
  std::vector<size_t> joined(rank_count);  // Union-find.
  std::iota(joined.begin(), joined.end(), size_t{0});
  const auto root = [&joined](size_t rank) {
    while (joined[rank] != rank) rank = joined[rank] = joined[joined[rank]];
    return rank;
  };
  for (const ShardGroups& groups : classification.groups) {
    for (const std::vector<Rank>& group : groups.ranks.groups) {
      for (const Rank rank : group) {
        joined[root(static_cast<size_t>(ToInt(rank)))] =
            root(static_cast<size_t>(ToInt(group.front())));
      }
    }
  }
  std::vector<double> size_of_root(rank_count, 0);
  for (size_t rank = 0; rank < rank_count; ++rank) ++size_of_root[root(rank)];
  std::vector<double> mean_of_root(rank_count, 0);
  for (size_t i = 0; i < sets.size(); ++i) {
    const ShardGroups& groups = classification.groups[i];
    double sum = 0;
    for (const int64_t flops : sets[i].flops) sum += static_cast<double>(flops);
    std::vector<double> living(rank_count, 0);
    for (const std::vector<Rank>& group : groups.ranks.groups) {
      living[root(static_cast<size_t>(ToInt(group.front())))] +=
          static_cast<double>(group.size());
    }
    for (size_t r = 0; r < rank_count; ++r) {
      if (living[r] == 0) continue;
      mean_of_root[r] +=
          sum / groups.group_size * (living[r] / size_of_root[r]);
    }
  }
  return static_cast<int64_t>(
      std::ceil(*std::max_element(mean_of_root.begin(), mean_of_root.end())));
}

void MeasureBalance(const Classification& classification,
                    const std::vector<Unit>& units, Plan& plan) {
  if (units.empty()) return;
  const std::vector<GroupUnits> sets = UnitsByGroups(classification, units);
  int64_t bound = 0;
  int64_t whole_bound = 0;
  const Unit* heaviest_unit = nullptr;
  for (size_t i = 0; i < sets.size(); ++i) {
    const int32_t size = classification.groups[i].group_size;
    bound = std::max(bound, HeaviestLoadLowerBound(sets[i].flops, size));
    const int64_t whole = WholeItemsLowerBound(sets[i].flops, size);
    if (whole > whole_bound) {
      whole_bound = whole;
      heaviest_unit = sets[i].heaviest;
    }
  }
  const int64_t mean_bound = MeanBound(classification, sets);
  plan.whole_unit_bound = std::max(whole_bound, mean_bound);
  if (whole_bound > mean_bound) {
    plan.heaviest_unit =
        plan.specs[static_cast<size_t>(heaviest_unit->parameter)].name;
  }
  int64_t heaviest_load = 0;
  for (const RankLoad& load : plan.rank_load) {
    heaviest_load = std::max(heaviest_load, load.newton_schulz_flops);
  }
  plan.imbalance_value = static_cast<double>(heaviest_load) /
                         static_cast<double>(std::max(bound, mean_bound));
}

}  // namespace

void MeasureLoads(const Classification& classification,
                  const std::vector<Unit>& units,
                  const OptimizerOptions& options, Plan& plan) {
  MeasureRanks(classification, units, options, plan);
  MeasureWire(plan);
  plan.padding_fraction = PaddingFraction(plan.buckets);
  MeasureBalance(classification, units, plan);
}

}  // namespace muonshard
