#include "collectives/level_operations.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace muonshard {
namespace {

size_t Index(int32_t rank) { return static_cast<size_t>(rank); }

template <typename Buffer>
Buffer Slice(const Buffer& buffer, int64_t begin, int64_t count) {
  if (count == 0) return {.data = nullptr, .count = 0, .type = buffer.type};
  using Byte = std::conditional_t<std::is_same_v<Buffer, ConstBuffer>,
                                  const std::byte, std::byte>;
  const auto offset = static_cast<size_t>(begin) * ByteWidth(buffer.type);
  return {.data = static_cast<Byte*>(buffer.data) + offset,
          .count = count,
          .type = buffer.type};
}

ConstBuffer AsInput(const MutableBuffer& buffer) {
  return {.data = buffer.data, .count = buffer.count, .type = buffer.type};
}

// The segments of some ranks, as those of a buffer of their own: elements
// [begin, begin + count) of the buffer of all ranks.
struct Segments {
  int64_t begin = 0;
  int64_t count = 0;
  std::vector<int64_t> counts = {};
  std::vector<int64_t> displacements = {};

  bool empty() const { return count == 0; }
};

// Where every segment of a buffer begins.
std::vector<int64_t> BeginsOf(const std::vector<int64_t>& counts,
                              const std::vector<int64_t>& displacements) {
  if (!displacements.empty()) return displacements;
  std::vector<int64_t> begins;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    begins.push_back(begin);
    begin += count;
  }
  return begins;
}

Segments SegmentsOf(const std::vector<int64_t>& counts,
                    const std::vector<int64_t>& begins,
                    const std::vector<int32_t>& ranks) {
  Segments segments;
  int64_t end = 0;
  for (const int32_t rank : ranks) {
    const int64_t count = counts[Index(rank)];
    if (count == 0) continue;
    const int64_t begin = begins[Index(rank)];
    segments.begin = end == 0 ? begin : std::min(segments.begin, begin);
    end = std::max(end, begin + count);
  }
  segments.count = end - segments.begin;
  for (const int32_t rank : ranks) {
    const int64_t count = counts[Index(rank)];
    segments.counts.push_back(count);
    segments.displacements.push_back(
        count == 0 ? 0 : begins[Index(rank)] - segments.begin);
  }
  return segments;
}

std::vector<int32_t> RanksOfHost(const HostAndLane& place, int32_t host) {
  std::vector<int32_t> ranks;
  for (int32_t l = 0; l < place.lanes; ++l) {
    ranks.push_back(place.RankOf(host, l));
  }
  return ranks;
}

std::vector<int32_t> RanksOfLane(const HostAndLane& place, int32_t lane) {
  std::vector<int32_t> ranks;
  for (int32_t h = 0; h < place.hosts; ++h) {
    ranks.push_back(place.RankOf(h, lane));
  }
  return ranks;
}

bool IsHalf(DataType type) {
  return type == DataType::kF16 || type == DataType::kBF16;
}

bool HasScale(const Reduction& reduction) {
  return reduction.kind == ReductionKind::kAverage ||
         reduction.kind == ReductionKind::kScaledSum;
}

Reduction HostReduction(const Operation& operation, const HostAndLane& place) {
  if (!HasScale(operation.reduction)) return operation.reduction;
  // The mean of a host is finite where its contributions are; their sum need
  // not be, in 16 bits.
  return IsHalf(operation.data_type) ? Reduction::ScaledSum(1.0 / place.lanes)
                                     : Reduction::Sum();
}

Reduction LaneReduction(const Operation& operation, const HostAndLane& place) {
  if (!HasScale(operation.reduction)) return operation.reduction;
  const bool half = IsHalf(operation.data_type);
  if (operation.reduction.kind == ReductionKind::kAverage) {
    const int32_t ranks = half ? place.hosts : place.hosts * place.lanes;
    return Reduction::ScaledSum(1.0 / ranks);
  }
  return Reduction::ScaledSum(operation.reduction.scale *
                              (half ? place.lanes : 1));
}

// What every operation of a level has from the call: no buffers, and no ready
// events.
Operation PartOf(const Operation& call, OperationKind kind) {
  return {.kind = kind,
          .data_type = call.data_type,
          .options = {.label = call.options.label,
                      .deadline = call.options.deadline,
                      .fingerprint = call.options.fingerprint}};
}

HierarchicalOperation ReduceScatterV(const Operation& call,
                                     const HostAndLane& place) {
  const std::vector<int64_t> begins =
      BeginsOf(call.in_counts, call.in_displacements);
  Operation lane = PartOf(call, call.kind);
  int64_t scratch_count = 0;
  for (const int32_t rank : RanksOfLane(place, place.lane)) {
    lane.in_counts.push_back(call.in_counts[Index(rank)]);
    scratch_count += lane.in_counts.back();
  }
  const std::shared_ptr<std::byte[]> scratch(
      new std::byte[static_cast<size_t>(scratch_count) *
                    ByteWidth(call.data_type)]);
  const MutableBuffer sums = {
      .data = scratch.get(), .count = scratch_count, .type = call.data_type};
  lane.reduction = LaneReduction(call, place);
  lane.in = AsInput(sums);
  lane.out = call.out;

  std::vector<Operation> hosts;
  int64_t begin = 0;
  for (int32_t h = 0; h < place.hosts; ++h) {
    const int64_t own_count = lane.in_counts[Index(h)];
    Segments run = SegmentsOf(call.in_counts, begins, RanksOfHost(place, h));
    // The counts are the same on every lane, so all leave it out.
    if (run.empty()) continue;
    Operation host = PartOf(call, call.kind);
    host.reduction = HostReduction(call, place);
    host.in = Slice(call.in, run.begin, run.count);
    host.out = Slice(sums, begin, own_count);
    host.in_counts = std::move(run.counts);
    host.in_displacements = std::move(run.displacements);
    hosts.push_back(std::move(host));
    begin += own_count;
  }
  HierarchicalOperation result;
  result.sequence.push_back({HierarchyLevel::kHost, std::move(hosts)});
  result.sequence.push_back({HierarchyLevel::kLane, {std::move(lane)}});
  result.scratch = scratch;
  return result;
}

HierarchicalOperation AllGatherV(const Operation& call,
                                 const HostAndLane& place) {
  const std::vector<int64_t> begins =
      BeginsOf(call.out_counts, call.out_displacements);
  Segments own =
      SegmentsOf(call.out_counts, begins, RanksOfLane(place, place.lane));
  Operation lane = PartOf(call, call.kind);
  lane.in = call.in;
  lane.out = Slice(call.out, own.begin, own.count);
  lane.out_counts = std::move(own.counts);
  lane.out_displacements = std::move(own.displacements);

  std::vector<Operation> hosts;
  for (int32_t h = 0; h < place.hosts; ++h) {
    Segments run = SegmentsOf(call.out_counts, begins, RanksOfHost(place, h));
    if (run.empty()) continue;
    const size_t rank = Index(place.RankOf(h, place.lane));
    Operation host = PartOf(call, call.kind);
    host.in = AsInput(Slice(call.out, begins[rank], call.out_counts[rank]));
    host.out = Slice(call.out, run.begin, run.count);
    host.out_counts = std::move(run.counts);
    host.out_displacements = std::move(run.displacements);
    hosts.push_back(std::move(host));
  }
  HierarchicalOperation result;
  result.sequence.push_back({HierarchyLevel::kLane, {std::move(lane)}});
  result.sequence.push_back({HierarchyLevel::kHost, std::move(hosts)});
  return result;
}

HierarchicalOperation AllReduce(const Operation& call,
                                const HostAndLane& place) {
  std::vector<int64_t> counts;
  for (int32_t l = 0; l < place.lanes; ++l) {
    const bool longer = l < call.out.count % place.lanes;
    counts.push_back(call.out.count / place.lanes + (longer ? 1 : 0));
  }
  const int64_t begin = BeginsOf(counts, {})[Index(place.lane)];
  const MutableBuffer own = Slice(call.out, begin, counts[Index(place.lane)]);

  Operation scatter = PartOf(call, OperationKind::kReduceScatterV);
  scatter.reduction = HostReduction(call, place);
  scatter.in = call.in;
  scatter.out = own;
  scatter.in_counts = counts;

  Operation lane = PartOf(call, OperationKind::kAllReduce);
  lane.reduction = LaneReduction(call, place);
  lane.in = AsInput(own);
  lane.out = own;

  Operation gather = PartOf(call, OperationKind::kAllGatherV);
  gather.in = AsInput(own);
  gather.out = call.out;
  gather.out_counts = std::move(counts);

  HierarchicalOperation result;
  result.sequence.push_back({HierarchyLevel::kHost, {std::move(scatter)}});
  result.sequence.push_back({HierarchyLevel::kLane, {std::move(lane)}});
  result.sequence.push_back({HierarchyLevel::kHost, {std::move(gather)}});
  return result;
}

HierarchicalOperation Broadcast(const Operation& call,
                                const HostAndLane& place) {
  const Rank root_host{ToInt(call.root) / place.lanes};
  const Rank root_lane{ToInt(call.root) % place.lanes};
  const bool in_root_lane = Rank{place.lane} == root_lane;

  // Nothing goes through the other lanes, which take part all the same: so all
  // ranks have the same operations.
  Operation lane = PartOf(call, call.kind);
  lane.root = root_host;
  lane.in = call.in;
  lane.out = Slice(call.out, 0, in_root_lane ? call.out.count : 0);

  Operation host = PartOf(call, call.kind);
  host.root = root_lane;
  host.in = AsInput(lane.out);
  host.out = call.out;

  HierarchicalOperation result;
  result.sequence.push_back({HierarchyLevel::kLane, {std::move(lane)}});
  result.sequence.push_back({HierarchyLevel::kHost, {std::move(host)}});
  return result;
}

template <typename Value>
uint64_t BitOf(Value value) {
  return uint64_t{1} << static_cast<uint32_t>(value);
}

}  // namespace

Capabilities CapabilitiesOfLevels(const Capabilities& whole,
                                  const Capabilities& host_level,
                                  const Capabilities& lane_level) {
  const auto all = [&](bool Capabilities::*promise) {
    return whole.*promise && host_level.*promise && lane_level.*promise;
  };
  Capabilities shared;
  shared.operations =
      whole.operations & host_level.operations & lane_level.operations;
  shared.data_types =
      whole.data_types & host_level.data_types & lane_level.data_types;
  shared.reductions =
      whole.reductions & host_level.reductions & lane_level.reductions;
  shared.canonical = all(&Capabilities::canonical);
  shared.repeatable = all(&Capabilities::repeatable);
  shared.split = all(&Capabilities::split);
  shared.window = all(&Capabilities::window);
  shared.exact_counters = all(&Capabilities::exact_counters);
  // A rank that calls for what goes through the levels and one that calls for
  // what goes through the whole group meet nowhere.
  shared.mismatch_detected = false;
  // A rank may wait in its lane for another one that waits in its host.
  shared.deadlock_detected = false;

  const uint64_t within_hosts =
      BitOf(OperationKind::kReduceScatterV) | BitOf(OperationKind::kAllGatherV);
  if ((shared.operations & within_hosts) != within_hosts) {
    shared.operations &= ~BitOf(OperationKind::kAllReduce);
  }
  // An average is a sum that the last level scales.
  if ((shared.reductions & BitOf(ReductionKind::kScaledSum)) == 0) {
    shared.reductions &= ~BitOf(ReductionKind::kAverage);
  }
  return shared;
}

bool GoesThroughLevels(OperationKind kind) {
  return kind == OperationKind::kReduceScatterV ||
         kind == OperationKind::kAllGatherV ||
         kind == OperationKind::kAllReduce || kind == OperationKind::kBroadcast;
}

HierarchicalOperation ToLevels(const Operation& operation,
                               const HostAndLane& place) {
  switch (operation.kind) {
    case OperationKind::kReduceScatterV:
      return ReduceScatterV(operation, place);
    case OperationKind::kAllGatherV:
      return AllGatherV(operation, place);
    case OperationKind::kAllReduce:
      return AllReduce(operation, place);
    case OperationKind::kBroadcast:
      return Broadcast(operation, place);
    default:
      return {};
  }
}

}  // namespace muonshard
