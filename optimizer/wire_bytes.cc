#include "optimizer/wire_bytes.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/data_type.h"
#include "optimizer/group_levels.h"
#include "optimizer/shard_groups.h"

namespace muonshard {
namespace {

// Elements, by place in the group.
using Counts = std::vector<int64_t>;

int64_t EvenShare(int64_t count, int64_t shares, int64_t index) {
  return count / shares + (index < count % shares ? 1 : 0);
}

void AddShares(int64_t count, const GroupLevels& levels, Counts& shares) {
  for (int64_t lane = 0; lane < levels.lanes; ++lane) {
    const int64_t of_lane = EvenShare(count, levels.lanes, lane);
    for (int64_t host = 0; host < levels.hosts; ++host) {
      shares[static_cast<size_t>(host * levels.lanes + lane)] +=
          EvenShare(of_lane, levels.hosts, host);
    }
  }
}

WireBytes Sum(const WireBytes& a, const WireBytes& b) {
  return {.sent = a.sent + b.sent,
          .across_hosts = a.across_hosts + b.across_hosts};
}

void AddTimes(int64_t width, const WireBytes& elements, WireBytes& bytes) {
  bytes.sent += width * elements.sent;
  bytes.across_hosts += width * elements.across_hosts;
}

// What the members of one group send, in elements, by place.
class GroupWire {
 public:
  GroupWire(const std::vector<Rank>& group, const HostMap& hosts,
            const GroupLevels& levels, const Counts& counts)
      : levels_(levels),
        counts_(counts),
        total_(std::accumulate(counts.begin(), counts.end(), int64_t{0})),
        of_lane_(static_cast<size_t>(levels.lanes), 0) {
    for (size_t i = 0; i < group.size(); ++i) {
      host_.push_back(hosts.host(group[i]));
      OnHost& on_host = on_host_[host_.back()];
      ++on_host.ranks;
      on_host.count += counts[i];
      of_lane_[LaneOf(i)] += counts[i];
    }
  }

  WireBytes DirectReduce(size_t i) const {
    return {.sent = total_ - counts_[i],
            .across_hosts = total_ - on_host_.at(host_[i]).count};
  }
  WireBytes DirectGather(size_t i) const {
    const int64_t size = static_cast<int64_t>(counts_.size());
    return {.sent = (size - 1) * counts_[i],
            .across_hosts = (size - on_host_.at(host_[i]).ranks) * counts_[i]};
  }

  WireBytes RingReduce(size_t i) const {
    return ToNext(i, total_ - counts_[i]);
  }
  WireBytes RingGather(size_t i) const {
    return ToNext(i, total_ - counts_[Next(i)]);
  }

  // As the levels say.
  WireBytes PlannedReduce(size_t i) const {
    if (!levels_.hierarchical()) return DirectReduce(i);
    const int64_t of_lane = of_lane_[LaneOf(i)];
    return {.sent = (total_ - of_lane) + (of_lane - counts_[i]),
            .across_hosts = of_lane - counts_[i]};
  }
  // Between the levels.
  int64_t ReduceScratch(size_t i) const {
    return levels_.hierarchical() ? of_lane_[LaneOf(i)] : 0;
  }
  WireBytes PlannedGather(size_t i) const {
    if (!levels_.hierarchical()) return DirectGather(i);
    const int64_t across = (levels_.hosts - 1) * counts_[i];
    return {.sent = across + (levels_.lanes - 1) * of_lane_[LaneOf(i)],
            .across_hosts = across};
  }

 private:
  struct OnHost {
    int64_t ranks = 0;
    int64_t count = 0;
  };

  size_t LaneOf(size_t i) const {
    return i % static_cast<size_t>(levels_.lanes);
  }
  size_t Next(size_t i) const { return (i + 1) % counts_.size(); }
  WireBytes ToNext(size_t i, int64_t count) const {
    return {.sent = count,
            .across_hosts = host_[i] == host_[Next(i)] ? 0 : count};
  }

  const GroupLevels levels_;
  const Counts& counts_;
  const int64_t total_;
  std::vector<int32_t> host_;  // By place.
  std::unordered_map<int32_t, OnHost> on_host_;
  std::vector<int64_t> of_lane_;
};

// The buckets of one class, on all its groups.
class ClassWire {
 public:
  ClassWire(int32_t bucket_class, Plan& plan)
      : class_(plan.classes[static_cast<size_t>(bucket_class)]),
        plan_(plan),
        gradient_bytes_(static_cast<int64_t>(ByteWidth(class_.gradient_dtype))),
        parameter_bytes_(
            static_cast<int64_t>(ByteWidth(class_.parameter_dtype))) {
    for (const Bucket& bucket : plan.buckets) {
      if (bucket.bucket_class == bucket_class) buckets_.push_back(&bucket);
    }
  }

  void MeasureShards(const RankGroups& shards) {
    Counts counts(static_cast<size_t>(class_.group_size), 0);
    for (const Bucket* bucket : buckets_) {
      for (size_t i = 0; i < counts.size(); ++i) {
        counts[i] += bucket->segments[i].count;
      }
    }
    for (const std::vector<Rank>& group : shards.groups) {
      const GroupWire wire(group, plan_.hosts, Levels(group), counts);
      for (size_t i = 0; i < group.size(); ++i) {
        RankLoad& load = LoadOf(group[i]);
        const WireBytes reduce = wire.PlannedReduce(i);
        const WireBytes gather = wire.PlannedGather(i);
        load.hierarchy_scratch_bytes += gradient_bytes_ * wire.ReduceScratch(i);
        load.reduce_bytes += gradient_bytes_ * reduce.sent;
        load.gather_bytes += parameter_bytes_ * gather.sent;
        AddTimes(gradient_bytes_, reduce, load.planned);
        AddTimes(parameter_bytes_, gather, load.planned);
        AddTimes(gradient_bytes_, wire.DirectReduce(i), load.flat_direct);
        AddTimes(parameter_bytes_, wire.DirectGather(i), load.flat_direct);
        AddTimes(gradient_bytes_, wire.RingReduce(i), load.flat_ring);
        AddTimes(parameter_bytes_, wire.RingGather(i), load.flat_ring);
      }
    }
  }

  void MeasureReplicas(const RankGroups& shards, const RankGroups& replicas) {
    if (class_.replica_size == 1) return;
    for (const std::vector<Rank>& group : replicas.groups) {
      const int32_t place = shards.place_of(group.front());
      const GroupLevels levels = Levels(group);
      const GroupLevels flat = {.hosts = 1, .lanes = class_.replica_size};
      const GroupWire planned(group, plan_.hosts, levels,
                              SharesOf(place, levels));
      const GroupWire direct(group, plan_.hosts, flat, SharesOf(place, flat));
      for (size_t i = 0; i < group.size(); ++i) {
        RankLoad& load = LoadOf(group[i]);
        const WireBytes sent =
            Sum(planned.PlannedReduce(i), planned.PlannedGather(i));
        load.replicate_bytes += gradient_bytes_ * sent.sent;
        AddTimes(gradient_bytes_, sent, load.planned);
        AddTimes(gradient_bytes_,
                 Sum(direct.DirectReduce(i), direct.DirectGather(i)),
                 load.flat_direct);
        AddTimes(gradient_bytes_,
                 Sum(direct.RingReduce(i), direct.RingGather(i)),
                 load.flat_ring);
      }
    }
  }

 private:
  GroupLevels Levels(const std::vector<Rank>& group) const {
    return LevelsOf(class_, group, plan_.hosts, plan_.hierarchy);
  }
  RankLoad& LoadOf(Rank rank) {
    return plan_.rank_load[static_cast<size_t>(ToInt(rank))];
  }

  // Of the segments at one place of the shard groups, of all buckets.
  const Counts& SharesOf(int32_t place, const GroupLevels& levels) {
    const auto [it, is_new] = shares_.emplace(
        std::tuple(place, levels.hosts, levels.lanes), Counts());
    if (!is_new) return it->second;
    Counts& shares = it->second;
    shares.resize(static_cast<size_t>(class_.replica_size), 0);
    for (const Bucket* bucket : buckets_) {
      AddShares(bucket->segments[static_cast<size_t>(place)].count, levels,
                shares);
    }
    return shares;
  }

  const BucketClass& class_;
  Plan& plan_;
  const int64_t gradient_bytes_;
  const int64_t parameter_bytes_;
  std::vector<const Bucket*> buckets_;
  // By place, hosts and lanes.
  std::map<std::tuple<int32_t, int32_t, int32_t>, Counts> shares_;
};

}  // namespace

void MeasureWire(Plan& plan) {
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    const RankGroups shards =
        ShardGroupsOf(plan.classes[c], plan.mesh, plan.hosts);
    ClassWire wire(static_cast<int32_t>(c), plan);
    wire.MeasureShards(shards);
    wire.MeasureReplicas(
        shards, ReplicaGroupsOf(plan.classes[c], plan.mesh, plan.hosts));
  }
}

}  // namespace muonshard
