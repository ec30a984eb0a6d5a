#include "plugins/loopback/model/algorithms.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

#include "plugins/loopback/shares.h"

namespace muonshard::loopback {
namespace {

// Bytes by index in the group.
using Bytes = std::vector<double>;

// Adds up the loads of one stage.
class StageMaker {
 public:
  explicit StageMaker(const Links& links)
      : links_(links), places_(links.count(), kNone) {}

  void Add(size_t link, double bytes) {
    if (bytes <= 0) return;
    if (places_[link] == kNone) {
      places_[link] = loads_.size();
      loads_.push_back({link, 0});
    }
    loads_[places_[link]].bytes += bytes;
  }

  // A message from one rank to another. `latencies` of them come one after the
  // other.
  void AddMessage(int32_t from, int32_t to, double bytes, double latencies) {
    if (bytes <= 0) return;
    const bool within = links_.HostOf(from) == links_.HostOf(to);
    const double slowness =
        std::max(links_.SlownessOf(from), links_.SlownessOf(to));
    AddLatency(within, slowness * latencies);
    Add(links_.PortOf(from, within ? Links::kLaneOut : Links::kNicOut), bytes);
    Add(links_.PortOf(to, within ? Links::kLaneIn : Links::kNicIn), bytes);
    const int32_t from_rack = links_.RackOf(from);
    const int32_t to_rack = links_.RackOf(to);
    if (from_rack == to_rack) return;
    Add(links_.UplinkOut(from_rack), bytes);
    Add(links_.UplinkIn(to_rack), bytes);
  }

  // The stage takes at least so many latencies.
  void AddLatency(bool within_host, double latencies) {
    const Network& network = links_.network();
    const double alpha_ns =
        within_host ? network.lane_alpha_ns : network.alpha_ns;
    latency_ns_ = std::max(latency_ns_, alpha_ns * latencies);
  }

  Stage Make() {
    for (const Load& load : loads_) places_[load.link] = kNone;
    return {.latency_ns = std::exchange(latency_ns_, 0),
            .loads = std::exchange(loads_, {})};
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  const Links& links_;
  double latency_ns_ = 0;
  std::vector<Load> loads_;
  std::vector<size_t> places_;  // In loads_, by link.
};

class Planner {
 public:
  Planner(const Links& links, std::span<const int32_t> ranks)
      : links_(links), ranks_(ranks), maker_(links) {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const int32_t rank = ranks_[i];
      one_host_ = one_host_ && links_.HostOf(rank) == links_.HostOf(ranks_[0]);
      slowness_ = std::max(slowness_, links_.SlownessOf(rank));
    }
  }

  std::vector<Stage> AllGather(const Bytes& segments);
  // An all-gather backwards, and all that comes in is reduced.
  std::vector<Stage> ReduceScatter(const Bytes& segments);
  Stage Gather(const Bytes& segments, int32_t root);
  Stage Scatter(const Bytes& segments, int32_t root) {
    return Reversed(Gather(segments, root));
  }
  Stage AllToAll(std::span<const Call* const> calls);
  Stage Message(double bytes);
  Stage Barrier();

 private:
  Stage RingGather(const Bytes& segments);
  Stage DirectGather(const Bytes& segments);
  std::vector<Stage> DoublingGather(const Bytes& segments);
  static Stage Reversed(Stage stage);
  Stage Reduction(const Stage& moved);

  size_t size() const { return ranks_.size(); }

  const Links& links_;
  const std::span<const int32_t> ranks_;
  StageMaker maker_;
  bool one_host_ = true;
  double slowness_ = 1;  // Of the slowest rank.
};

double Sum(const Bytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

std::vector<Stage> Planner::AllGather(const Bytes& segments) {
  const bool power_of_two = std::has_single_bit(size());
  switch (links_.network().algorithm) {
    case Algorithm::kDirect:
      return {DirectGather(segments)};
    case Algorithm::kHalving:
      if (power_of_two) return DoublingGather(segments);
      break;
    case Algorithm::kAuto:
      if (power_of_two && Sum(segments) <= double{kHalvingBytesMax}) {
        return DoublingGather(segments);
      }
      break;
    case Algorithm::kRing:
      break;
  }
  return {RingGather(segments)};
}

Stage Planner::RingGather(const Bytes& segments) {
  const double largest = *std::max_element(segments.begin(), segments.end());
  const auto steps = static_cast<double>(size() - 1);
  for (size_t i = 0; i < size(); ++i) {
    maker_.AddMessage(ranks_[i], ranks_[(i + 1) % size()], steps * largest,
                      steps);
  }
  return maker_.Make();
}

Stage Planner::DirectGather(const Bytes& segments) {
  // What lies in one host or rack: how many ranks and bytes.
  struct Place {
    double ranks = 0;
    double bytes = 0;
  };
  std::map<int32_t, Place> hosts;
  std::map<int32_t, Place> racks;
  for (size_t i = 0; i < size(); ++i) {
    for (Place* place :
         {&hosts[links_.HostOf(ranks_[i])], &racks[links_.RackOf(ranks_[i])]}) {
      ++place->ranks;
      place->bytes += segments[i];
    }
  }
  const auto all = static_cast<double>(size());
  const double sum = Sum(segments);
  for (size_t i = 0; i < size(); ++i) {
    const int32_t rank = ranks_[i];
    const Place& host = hosts[links_.HostOf(rank)];
    const double own = segments[i];
    maker_.Add(links_.PortOf(rank, Links::kLaneOut), own * (host.ranks - 1));
    maker_.Add(links_.PortOf(rank, Links::kLaneIn), host.bytes - own);
    maker_.Add(links_.PortOf(rank, Links::kNicOut), own * (all - host.ranks));
    maker_.Add(links_.PortOf(rank, Links::kNicIn), sum - host.bytes);
  }
  for (const auto& [rack, place] : racks) {
    maker_.Add(links_.UplinkOut(rack), place.bytes * (all - place.ranks));
    maker_.Add(links_.UplinkIn(rack), (sum - place.bytes) * place.ranks);
  }
  if (size() > 1 && sum > 0) maker_.AddLatency(one_host_, slowness_);
  return maker_.Make();
}

std::vector<Stage> Planner::DoublingGather(const Bytes& segments) {
  std::vector<Stage> stages;
  Bytes held = segments;  // By each rank, and so far.
  for (size_t distance = 1; distance < size(); distance *= 2) {
    Bytes next(size());
    for (size_t i = 0; i < size(); ++i) {
      const size_t partner = i ^ distance;
      maker_.AddMessage(ranks_[i], ranks_[partner], held[i], 1);
      next[i] = held[i] + held[partner];
    }
    held = std::move(next);
    stages.push_back(maker_.Make());
  }
  return stages;
}

Stage Planner::Reversed(Stage stage) {
  for (Load& load : stage.loads) load.link = Links::Reversed(load.link);
  return stage;
}

Stage Planner::Reduction(const Stage& moved) {
  for (const Load& load : moved.loads) {
    if (!links_.IsPortIn(load.link)) continue;
    maker_.Add(links_.ReducerOf(Links::RankOfPort(load.link)), load.bytes);
  }
  return maker_.Make();
}

std::vector<Stage> Planner::ReduceScatter(const Bytes& segments) {
  std::vector<Stage> gather = AllGather(segments);
  std::vector<Stage> stages;
  for (auto stage = gather.rbegin(); stage != gather.rend(); ++stage) {
    stages.push_back(Reversed(std::move(*stage)));
    stages.push_back(Reduction(stages.back()));
  }
  return stages;
}

Stage Planner::Gather(const Bytes& segments, int32_t root) {
  for (size_t i = 0; i < size(); ++i) {
    if (static_cast<int32_t>(i) == root) continue;
    maker_.AddMessage(ranks_[i], ranks_[static_cast<size_t>(root)], segments[i],
                      1);
  }
  return maker_.Make();
}

Stage Planner::AllToAll(std::span<const Call* const> calls) {
  for (size_t i = 0; i < size(); ++i) {
    const auto width = static_cast<double>(calls[i]->width());
    for (size_t j = 0; j < size(); ++j) {
      if (i == j) continue;
      const auto count = static_cast<double>(calls[i]->in_segments[j].count);
      maker_.AddMessage(ranks_[i], ranks_[j], count * width, 1);
    }
  }
  return maker_.Make();
}

Stage Planner::Message(double bytes) {
  maker_.AddMessage(ranks_[0], ranks_[1], bytes, 1);
  return maker_.Make();
}

Stage Planner::Barrier() {
  const auto steps = static_cast<double>(std::bit_width(size() - 1));
  maker_.AddLatency(one_host_, slowness_ * steps);
  return maker_.Make();
}

Bytes SegmentBytes(const std::vector<Segment>& segments, size_t width) {
  Bytes bytes;
  for (const Segment& segment : segments) {
    bytes.push_back(static_cast<double>(segment.count * width));
  }
  return bytes;
}

Bytes EvenBytes(uint64_t count, size_t shares, size_t width) {
  std::vector<Segment> segments;
  for (size_t i = 0; i < shares; ++i) {
    segments.push_back(EvenShare(count, shares, i));
  }
  return SegmentBytes(segments, width);
}

}  // namespace

std::vector<Stage> StagesOf(const Links& links, std::span<const int32_t> ranks,
                            std::span<const Call* const> calls) {
  Planner planner(links, ranks);
  const Call& call = *calls[0];
  const size_t width = call.width();
  std::vector<Stage> stages;
  switch (call.kind) {
    case MUONSHARD_ALL_REDUCE: {
      const Bytes even = EvenBytes(call.in_count, ranks.size(), width);
      stages = planner.ReduceScatter(even);
      for (Stage& stage : planner.AllGather(even)) {
        stages.push_back(std::move(stage));
      }
      break;
    }
    case MUONSHARD_REDUCE: {
      const Bytes even = EvenBytes(call.in_count, ranks.size(), width);
      stages = planner.ReduceScatter(even);
      stages.push_back(planner.Gather(even, call.root));
      break;
    }
    case MUONSHARD_BROADCAST: {
      const Bytes even = EvenBytes(call.out_count, ranks.size(), width);
      stages.push_back(planner.Scatter(even, call.root));
      for (Stage& stage : planner.AllGather(even)) {
        stages.push_back(std::move(stage));
      }
      break;
    }
    case MUONSHARD_REDUCE_SCATTER_V:
      stages = planner.ReduceScatter(SegmentBytes(call.in_segments, width));
      break;
    case MUONSHARD_ALL_GATHER_V:
      stages = planner.AllGather(SegmentBytes(call.out_segments, width));
      break;
    case MUONSHARD_ALL_TO_ALL_V:
      stages.push_back(planner.AllToAll(calls));
      break;
    case MUONSHARD_SEND:
      stages.push_back(
          planner.Message(static_cast<double>(call.in_count * width)));
      break;
    default:
      stages.push_back(planner.Barrier());
      break;
  }
  std::erase_if(stages, [](const Stage& stage) {
    return stage.latency_ns == 0 && stage.loads.empty();
  });
  return stages;
}

}  // namespace muonshard::loopback
