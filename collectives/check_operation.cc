#include "collectives/check_operation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

// Elements of the longest buffer, so that its bytes still fit in 63 bits.
constexpr int64_t kCountMax = std::numeric_limits<int64_t>::max() / 8;

// A run of elements of a buffer.
struct Segment {
  int64_t begin = 0;
  int64_t count = 0;
};

class Checker {
 public:
  Checker(const Operation& operation, Rank rank, int32_t size)
      : operation_(operation), rank_(rank), size_(size) {}

  absl::Status Check() const;

 private:
  using Kind = OperationKind;

  template <typename... Text>
  absl::Status Error(const Text&... text) const {
    return absl::InvalidArgumentError(
        absl::StrCat(DescribeOperation(operation_), " on rank ", ToInt(rank_),
                     " of ", size_, ": ", text...));
  }

  bool is(Kind kind) const { return operation_.kind == kind; }
  bool rooted() const { return is(Kind::kReduce) || is(Kind::kBroadcast); }
  bool on_root() const { return operation_.root == rank_; }

  absl::Status CheckRanks() const;
  absl::Status CheckReduction() const;
  absl::Status CheckBuffer(absl::string_view name, const void* data,
                           int64_t count, DataType type) const;
  absl::Status CheckLists() const;
  absl::Status CheckList(absl::string_view name, size_t entries,
                         bool wanted) const;
  absl::Status CheckCounts() const;
  absl::Status CheckCount(absl::string_view name, int64_t got,
                          int64_t wanted) const;
  absl::Status CheckInSegments() const;
  absl::Status CheckOutSegments() const;
  absl::Status CheckSegments(absl::string_view name,
                             const std::vector<int64_t>& counts,
                             const std::vector<int64_t>& displacements,
                             int64_t buffer_count) const;
  absl::Status CheckOverlap() const;

  // Where the own segment lies; the lists have been checked.
  Segment OwnSegment(const std::vector<int64_t>& counts,
                     const std::vector<int64_t>& displacements) const;

  const Operation& operation_;
  const Rank rank_;
  const int32_t size_;
};

absl::Status Checker::Check() const {
  if (static_cast<uint32_t>(operation_.kind) >= kOperationKindCount) {
    return Error("no such kind: ", static_cast<uint32_t>(operation_.kind));
  }
  if (ByteWidth(operation_.data_type) == 0) {
    return Error("no such data type: ",
                 static_cast<uint32_t>(operation_.data_type));
  }
  if (absl::Status s = CheckRanks(); !s.ok()) return s;
  if (absl::Status s = CheckReduction(); !s.ok()) return s;
  const ConstBuffer& in = operation_.in;
  const MutableBuffer& out = operation_.out;
  if (absl::Status s = CheckBuffer("in", in.data, in.count, in.type); !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckBuffer("out", out.data, out.count, out.type);
      !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckLists(); !s.ok()) return s;
  if (absl::Status s = CheckCounts(); !s.ok()) return s;
  return CheckOverlap();
}

absl::Status Checker::CheckRanks() const {
  if (rooted()) {
    const int32_t root = ToInt(operation_.root);
    if (root < 0 || root >= size_) {
      return Error("want a root in [0, ", size_, "), got ", root);
    }
  }
  if (is(Kind::kSend) || is(Kind::kRecv)) {
    const int32_t peer = ToInt(operation_.peer);
    if (peer < 0 || peer >= size_ || operation_.peer == rank_) {
      return Error("want a peer in [0, ", size_, ") other than itself, got ",
                   peer);
    }
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckReduction() const {
  if (!Reduces(operation_.kind)) return absl::OkStatus();
  const Reduction& reduction = operation_.reduction;
  const bool scales = reduction.kind == ReductionKind::kAverage ||
                      reduction.kind == ReductionKind::kScaledSum;
  if (reduction.kind < ReductionKind::kSum ||
      reduction.kind > ReductionKind::kScaledSum) {
    return Error("no such reduction: ", static_cast<uint32_t>(reduction.kind));
  }
  const DataType type = operation_.data_type;
  if (scales && (type == DataType::kI32 || type == DataType::kI64 ||
                 type == DataType::kU8)) {
    return Error("an average or scaled sum wants a floating type, got ",
                 DataTypeName(type));
  }
  if (reduction.kind == ReductionKind::kScaledSum &&
      !std::isfinite(reduction.scale)) {
    return Error("want a finite scale, got ", reduction.scale);
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckBuffer(absl::string_view name, const void* data,
                                  int64_t count, DataType type) const {
  if (count < 0 || count > kCountMax) {
    return Error("`", name, "` has ", count, " elements");
  }
  if (count == 0) return absl::OkStatus();
  if (data == nullptr) {
    return Error("`", name, "` has ", count, " elements and no memory");
  }
  if (type != operation_.data_type) {
    return Error("`", name, "` is ", DataTypeName(type), ", want ",
                 DataTypeName(operation_.data_type));
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckLists() const {
  const bool in = is(Kind::kReduceScatterV) || is(Kind::kAllToAllV);
  const bool out = is(Kind::kAllGatherV) || is(Kind::kAllToAllV);
  const Operation& o = operation_;
  if (absl::Status s = CheckList("in_counts", o.in_counts.size(), in);
      !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckList("out_counts", o.out_counts.size(), out);
      !s.ok()) {
    return s;
  }
  if (!o.in_displacements.empty()) {
    if (absl::Status s =
            CheckList("in_displacements", o.in_displacements.size(), in);
        !s.ok()) {
      return s;
    }
  }
  if (!o.out_displacements.empty()) {
    return CheckList("out_displacements", o.out_displacements.size(), out);
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckList(absl::string_view name, size_t entries,
                                bool wanted) const {
  const size_t wanted_entries = wanted ? static_cast<size_t>(size_) : 0;
  if (entries != wanted_entries) {
    return Error("want ", wanted_entries, " entries of ", name, ", got ",
                 entries);
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckCounts() const {
  const Operation& o = operation_;
  switch (o.kind) {
    case Kind::kAllReduce:
      return CheckCount("out", o.out.count, o.in.count);
    case Kind::kReduce:
      return CheckCount("out", o.out.count, on_root() ? o.in.count : 0);
    case Kind::kBroadcast:
      return CheckCount("in", o.in.count, on_root() ? o.out.count : 0);
    case Kind::kReduceScatterV: {
      if (absl::Status s = CheckInSegments(); !s.ok()) return s;
      return CheckCount("out", o.out.count,
                        OwnSegment(o.in_counts, o.in_displacements).count);
    }
    case Kind::kAllGatherV: {
      if (absl::Status s = CheckOutSegments(); !s.ok()) return s;
      return CheckCount("in", o.in.count,
                        OwnSegment(o.out_counts, o.out_displacements).count);
    }
    case Kind::kAllToAllV: {
      if (absl::Status s = CheckInSegments(); !s.ok()) return s;
      if (absl::Status s = CheckOutSegments(); !s.ok()) return s;
      const size_t self = static_cast<size_t>(ToInt(rank_));
      if (o.in_counts[self] != o.out_counts[self]) {
        return Error("sends ", o.in_counts[self], " elements to itself and ",
                     "wants ", o.out_counts[self]);
      }
      return absl::OkStatus();
    }
    case Kind::kSend:
      return CheckCount("out", o.out.count, 0);
    case Kind::kRecv:
      return CheckCount("in", o.in.count, 0);
    case Kind::kBarrier:
      if (absl::Status s = CheckCount("in", o.in.count, 0); !s.ok()) return s;
      return CheckCount("out", o.out.count, 0);
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckCount(absl::string_view name, int64_t got,
                                 int64_t wanted) const {
  if (got == wanted) return absl::OkStatus();
  return Error("`", name, "` has ", got, " elements, want ", wanted);
}

absl::Status Checker::CheckSegments(absl::string_view name,
                                    const std::vector<int64_t>& counts,
                                    const std::vector<int64_t>& displacements,
                                    int64_t buffer_count) const {
  int64_t sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0 || counts[i] > kCountMax - sum) {
      return Error("segment ", i, " of `", name, "` has ", counts[i],
                   " elements");
    }
    sum += counts[i];
  }
  if (displacements.empty()) return CheckCount(name, buffer_count, sum);

  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t begin = displacements[i];
    if (begin < 0 || begin > buffer_count || counts[i] > buffer_count - begin) {
      return Error("segment ", i, " of `", name, "` has ", counts[i],
                   " elements from ", begin, ", want it within ", buffer_count);
    }
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckInSegments() const {
  return CheckSegments("in", operation_.in_counts, operation_.in_displacements,
                       operation_.in.count);
}

absl::Status Checker::CheckOutSegments() const {
  const std::vector<int64_t>& counts = operation_.out_counts;
  const std::vector<int64_t>& displacements = operation_.out_displacements;
  if (absl::Status s =
          CheckSegments("out", counts, displacements, operation_.out.count);
      !s.ok()) {
    return s;
  }
  // What is read may be read twice; what is written may not be written twice.
  std::vector<std::pair<int64_t, size_t>> begins;  // (displacement, segment)
  for (size_t i = 0; i < displacements.size(); ++i) {
    if (counts[i] > 0) begins.emplace_back(displacements[i], i);
  }
  std::sort(begins.begin(), begins.end());
  for (size_t i = 1; i < begins.size(); ++i) {
    const auto [begin, before] = begins[i - 1];
    if (begin + counts[before] > begins[i].first) {
      return Error("segments ", before, " and ", begins[i].second,
                   " of `out` overlap");
    }
  }
  return absl::OkStatus();
}

Segment Checker::OwnSegment(const std::vector<int64_t>& counts,
                            const std::vector<int64_t>& displacements) const {
  const size_t self = static_cast<size_t>(ToInt(rank_));
  int64_t begin = 0;
  if (displacements.empty()) {
    for (size_t i = 0; i < self; ++i) begin += counts[i];
  } else {
    begin = displacements[self];
  }
  return {begin, counts[self]};
}

absl::Status Checker::CheckOverlap() const {
  const Operation& o = operation_;
  if (o.in.count == 0 || o.out.count == 0) return absl::OkStatus();
  const size_t width = ByteWidth(o.data_type);
  // As integers, because the two need not be of one array.
  const auto in = reinterpret_cast<uintptr_t>(o.in.data);
  const auto out = reinterpret_cast<uintptr_t>(o.out.data);
  const uintptr_t in_end = in + static_cast<uintptr_t>(o.in.count) * width;
  const uintptr_t out_end = out + static_cast<uintptr_t>(o.out.count) * width;
  if (in_end <= out || out_end <= in) return absl::OkStatus();

  uintptr_t in_place_in = in;
  uintptr_t in_place_out = out;
  if (is(Kind::kReduceScatterV)) {
    in_place_in += static_cast<uintptr_t>(
                       OwnSegment(o.in_counts, o.in_displacements).begin) *
                   width;
  } else if (is(Kind::kAllGatherV)) {
    in_place_out += static_cast<uintptr_t>(
                        OwnSegment(o.out_counts, o.out_displacements).begin) *
                    width;
  }
  if (!is(Kind::kAllToAllV) && in_place_in == in_place_out) {
    return absl::OkStatus();
  }
  return Error("`in` and `out` overlap, and not where in place is allowed");
}

}  // namespace

absl::Status CheckOperation(const Operation& operation, Rank rank, int32_t size,
                            const Capabilities& capabilities) {
  if (absl::Status s = Checker(operation, rank, size).Check(); !s.ok()) {
    return s;
  }
  const auto promised = [](uint64_t bits, auto value) {
    return (bits >> static_cast<uint32_t>(value) & 1) != 0;
  };
  const std::string what = DescribeOperation(operation);
  if (!promised(capabilities.operations, operation.kind)) {
    return absl::UnimplementedError(
        absl::StrCat(what, ": the plugin lacks this operation"));
  }
  if (operation.kind == OperationKind::kBarrier) return absl::OkStatus();
  if (!promised(capabilities.data_types, operation.data_type)) {
    return absl::UnimplementedError(
        absl::StrCat(what, ": the plugin lacks ",
                     DataTypeName(operation.data_type), " elements"));
  }
  if (Reduces(operation.kind) &&
      !promised(capabilities.reductions, operation.reduction.kind)) {
    return absl::UnimplementedError(
        absl::StrCat(what, ": the plugin lacks reduction ",
                     static_cast<uint32_t>(operation.reduction.kind)));
  }
  return absl::OkStatus();
}

}  // namespace muonshard
