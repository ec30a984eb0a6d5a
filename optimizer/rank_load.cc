#include "optimizer/rank_load.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "collectives/data_type.h"
#include "optimizer/owner_assignment.h"
#include "optimizer/shard_groups.h"

namespace muonshard {
namespace {

void Add(const RankLoad& more, RankLoad& load) {
  load.newton_schulz_flops += more.newton_schulz_flops;
  load.state_bytes += more.state_bytes;
  load.scratch_bytes = std::max(load.scratch_bytes, more.scratch_bytes);
  load.reduce_bytes += more.reduce_bytes;
  load.gather_bytes += more.gather_bytes;
  load.replicate_bytes += more.replicate_bytes;
}

// The loads of one bucket class, by group rank and replica.
class ClassLoads {
 public:
  explicit ClassLoads(const BucketClass& bucket_class)
      : class_(bucket_class),
        of_group_rank_(static_cast<size_t>(bucket_class.group_size)),
        replicate_bytes_(of_group_rank_.size() *
                         static_cast<size_t>(bucket_class.replica_size)) {}

  void AddUnit(const Unit& unit) {
    RankLoad& load = of_group_rank_[static_cast<size_t>(unit.owner)];
    load.newton_schulz_flops += unit.flops;
    load.scratch_bytes = std::max(load.scratch_bytes, unit.scratch_bytes);
  }

  void AddBucket(const Bucket& bucket) {
    const int64_t gradient_bytes =
        static_cast<int64_t>(ByteWidth(class_.gradient_dtype));
    const int64_t parameter_bytes =
        static_cast<int64_t>(ByteWidth(class_.parameter_dtype));
    for (size_t rank = 0; rank < of_group_rank_.size(); ++rank) {
      const int64_t count = bucket.segments[rank].count;
      RankLoad& load = of_group_rank_[rank];
      load.reduce_bytes += gradient_bytes * (bucket.count - count);
      load.gather_bytes += parameter_bytes * (class_.group_size - 1) * count;
      if (class_.replica_size > 1) AddReplication(rank, count, gradient_bytes);
    }
    for (const Piece& piece : bucket.pieces) {
      of_group_rank_[static_cast<size_t>(piece.owner)].state_bytes +=
          piece.count * (piece.rows > 0 ? kMuonStateBytesPerElement
                                        : kAdamWStateBytesPerElement);
    }
  }

  RankLoad Of(int32_t group_rank, int32_t replica) const {
    RankLoad load = of_group_rank_[static_cast<size_t>(group_rank)];
    load.replicate_bytes = replicate_bytes_[Index(
        static_cast<size_t>(group_rank), static_cast<size_t>(replica))];
    return load;
  }

 private:
  size_t Index(size_t group_rank, size_t replica) const {
    return group_rank * static_cast<size_t>(class_.replica_size) + replica;
  }

  // Reduce to the replica that has the part, then gather it.
  void AddReplication(size_t group_rank, int64_t count,
                      int64_t gradient_bytes) {
    const int64_t size = class_.replica_size;
    for (int64_t replica = 0; replica < size; ++replica) {
      const int64_t own = count / size + (replica < count % size ? 1 : 0);
      replicate_bytes_[Index(group_rank, static_cast<size_t>(replica))] +=
          gradient_bytes * (count - own + (size - 1) * own);
    }
  }

  const BucketClass& class_;
  std::vector<RankLoad> of_group_rank_;
  std::vector<int64_t> replicate_bytes_;
};

void MeasureRanks(const Classification& classification,
                  const std::vector<Unit>& units, Plan& plan) {
  std::vector<ClassLoads> loads(plan.classes.begin(), plan.classes.end());
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
    const ShardGroups& groups =
        classification.GroupsOf(static_cast<int32_t>(c));
    const std::vector<int32_t> replica_places = ReplicaPlaces(
        plan.mesh, plan.hosts, groups, plan.classes[c].replicate_axes);
    for (size_t rank = 0; rank < plan.rank_load.size(); ++rank) {
      Add(loads[c].Of(groups.group_rank[rank], replica_places[rank]),
          plan.rank_load[rank]);
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

void MeasureBalance(const Classification& classification,
                    const std::vector<Unit>& units, Plan& plan) {
  if (units.empty()) return;
  const std::vector<GroupUnits> sets = UnitsByGroups(classification, units);
  double mean = 0;
  int64_t bound = 0;
  int64_t whole_bound = 0;
  const Unit* heaviest_unit = nullptr;
  for (size_t i = 0; i < sets.size(); ++i) {
    const int32_t size = classification.groups[i].group_size;
    double sum = 0;
    for (const int64_t flops : sets[i].flops) sum += static_cast<double>(flops);
    mean += sum / size;
    bound = std::max(bound, HeaviestLoadLowerBound(sets[i].flops, size));
    const int64_t whole = WholeItemsLowerBound(sets[i].flops, size);
    if (whole > whole_bound) {
      whole_bound = whole;
      heaviest_unit = sets[i].heaviest;
    }
  }
  const int64_t mean_bound = static_cast<int64_t>(std::ceil(mean));
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
                  const std::vector<Unit>& units, Plan& plan) {
  MeasureRanks(classification, units, plan);
  plan.padding_fraction = PaddingFraction(plan.buckets);
  MeasureBalance(classification, units, plan);
}

}  // namespace muonshard
