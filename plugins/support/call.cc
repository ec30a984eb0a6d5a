#include "plugins/support/call.h"

#include <cinttypes>
#include <cstdio>

namespace muonshard::plugins {
namespace {

constexpr const char* kKindNames[MUONSHARD_OPERATION_KINDS] = {
    "AllReduce", "Reduce", "Broadcast", "ReduceScatterV", "AllGatherV",
    "AllToAllV", "Send",   "Recv",      "Barrier"};

// Elements of the longest buffer, so that all sums of bytes fit.
constexpr uint64_t kCountMax = uint64_t{1} << 56;

const char* TypeName(uint32_t data_type) {
  switch (data_type) {
    case MUONSHARD_BF16:
      return "bf16";
    case MUONSHARD_F16:
      return "f16";
    case MUONSHARD_F32:
      return "f32";
    case MUONSHARD_F64:
      return "f64";
    case MUONSHARD_I32:
      return "i32";
    case MUONSHARD_I64:
      return "i64";
    case MUONSHARD_U8:
      return "u8";
    default:
      return "unknown";
  }
}

bool IsFloating(uint32_t data_type) {
  return data_type != MUONSHARD_I32 && data_type != MUONSHARD_I64 &&
         data_type != MUONSHARD_U8;
}

std::string ReductionText(const Reduction& reduction) {
  switch (reduction.kind) {
    case MUONSHARD_MIN:
      return "min";
    case MUONSHARD_MAX:
      return "max";
    case MUONSHARD_AVERAGE:
      return "average";
    case MUONSHARD_SCALED_SUM: {
      char text[64];
      // 17 digits tell any two doubles apart.
      std::snprintf(text, sizeof(text), "sum times %.17g", reduction.scale);
      return text;
    }
    default:
      return "sum";
  }
}

// The counts of `segments`, in full while a line holds them.
std::string CountsText(const std::vector<Segment>& segments) {
  constexpr size_t kSegmentsShown = 8;
  if (segments.size() > kSegmentsShown) {
    uint64_t sum = 0;
    for (const Segment& segment : segments) sum += segment.count;
    return std::to_string(segments.size()) + " counts of sum " +
           std::to_string(sum);
  }
  std::string text;
  for (const Segment& segment : segments) {
    text += (text.empty() ? "[" : ", ") + std::to_string(segment.count);
  }
  return text + "]";
}

class Maker {
 public:
  Maker(const muonshard_operation& operation, int32_t rank, int32_t size,
        Call* call)
      : operation_(operation), rank_(rank), size_(size), call_(*call) {}

  Outcome Make();

 private:
  Outcome Refused(const std::string& text) const {
    const char* const label = operation_.label;
    return {.code = MUONSHARD_E_ARGUMENT,
            .text = KindName(operation_.kind) + " " +
                    Quoted(label == nullptr ? "" : label) + " on rank " +
                    std::to_string(rank_) + ": " + text,
            .rank = rank_};
  }

  Outcome Unsupported(const std::string& text) const {
    Outcome outcome = Refused(text);
    outcome.code = MUONSHARD_E_UNSUPPORTED;
    return outcome;
  }

  Outcome CheckHead() const;
  Outcome CheckReduction() const;
  Outcome CheckBuffer(const char* name, const muonshard_buffer& buffer) const;
  Outcome MakeSegments(const char* name, const uint64_t* counts,
                       const uint64_t* displacements, uint64_t buffer_count,
                       std::vector<Segment>* segments) const;
  Outcome CheckCounts();
  Outcome CheckCount(const char* name, uint64_t got, uint64_t wanted) const;
  Outcome CheckOverlap() const;

  size_t own() const { return static_cast<size_t>(rank_); }

  const muonshard_operation& operation_;
  const int32_t rank_;
  const int32_t size_;
  Call& call_;
};

Outcome Maker::Make() {
  if (Outcome o = CheckHead(); !o.ok()) return o;
  call_.kind = operation_.kind;
  call_.reduction.data_type = operation_.data_type;
  call_.root = operation_.root;
  call_.peer = operation_.peer;
  call_.in = static_cast<const std::byte*>(operation_.in.data);
  call_.in_count = operation_.in.count;
  call_.out = static_cast<std::byte*>(operation_.out.data);
  call_.out_count = operation_.out.count;
  call_.deadline_ns = operation_.deadline_ns;
  call_.fingerprint = operation_.user_fingerprint;
  call_.label = operation_.label;
  if (call_.reduces()) {
    if (Outcome o = CheckReduction(); !o.ok()) return o;
    call_.reduction.kind = operation_.reduction;
    if (operation_.reduction == MUONSHARD_SCALED_SUM) {
      call_.reduction.scale = operation_.scale;
    }
  }
  if (Outcome o = CheckBuffer("in", operation_.in); !o.ok()) return o;
  if (Outcome o = CheckBuffer("out", operation_.out); !o.ok()) return o;
  if (Outcome o = CheckCounts(); !o.ok()) return o;
  return CheckOverlap();
}

Outcome Maker::CheckHead() const {
  const muonshard_operation& o = operation_;
  if (!MUONSHARD_HAS(&o, muonshard_operation, label)) {
    return {.code = MUONSHARD_E_VERSION,
            .text = "an operation of " + std::to_string(o.header.size) +
                    " bytes, want " +
                    std::to_string(MUONSHARD_END(muonshard_operation, label))};
  }
  if (o.label == nullptr) return Refused("the label is null");
  if (o.kind >= MUONSHARD_OPERATION_KINDS) {
    return Unsupported("no such kind: " + std::to_string(o.kind));
  }
  if (o.kind != MUONSHARD_BARRIER && ByteWidth(o.data_type) == 0) {
    return Unsupported("no such data type: " + std::to_string(o.data_type));
  }
  if (o.memory_kind != MUONSHARD_MEMORY_HOST || o.device_scale != nullptr) {
    return Unsupported("loopback works on host memory alone");
  }
  if (o.ready_count > 0 && o.ready == nullptr) {
    return Refused("ready is null, ready_count is " +
                   std::to_string(o.ready_count));
  }
  const bool rooted =
      o.kind == MUONSHARD_REDUCE || o.kind == MUONSHARD_BROADCAST;
  if (rooted && (o.root < 0 || o.root >= size_)) {
    return Refused("want a root in [0, " + std::to_string(size_) + "), got " +
                   std::to_string(o.root));
  }
  const bool pairwise = o.kind == MUONSHARD_SEND || o.kind == MUONSHARD_RECV;
  if (pairwise && (o.peer < 0 || o.peer >= size_ || o.peer == rank_)) {
    return Refused("want a peer in [0, " + std::to_string(size_) +
                   ") other than itself, got " + std::to_string(o.peer));
  }
  return {};
}

Outcome Maker::CheckReduction() const {
  const uint32_t reduction = operation_.reduction;
  if (reduction < MUONSHARD_SUM || reduction > MUONSHARD_SCALED_SUM) {
    return Unsupported("no such reduction: " + std::to_string(reduction));
  }
  if (reduction >= MUONSHARD_AVERAGE && !IsFloating(operation_.data_type)) {
    return Refused("an average or scaled sum wants a floating type, got " +
                   std::string(TypeName(operation_.data_type)));
  }
  return {};
}

Outcome Maker::CheckBuffer(const char* name,
                           const muonshard_buffer& buffer) const {
  if (buffer.count > kCountMax) {
    return Refused(std::string(name) + " has " + std::to_string(buffer.count) +
                   " elements");
  }
  if (buffer.count > 0 && buffer.data == nullptr) {
    return Refused(std::string(name) + " is null, want " +
                   std::to_string(buffer.count) + " elements");
  }
  return {};
}

Outcome Maker::MakeSegments(const char* name, const uint64_t* counts,
                            const uint64_t* displacements,
                            uint64_t buffer_count,
                            std::vector<Segment>* segments) const {
  if (counts == nullptr) return Refused(std::string(name) + "_counts is null");
  uint64_t sum = 0;
  segments->resize(static_cast<size_t>(size_));
  for (size_t rank = 0; rank < segments->size(); ++rank) {
    Segment& segment = (*segments)[rank];
    segment.first = displacements == nullptr ? sum : displacements[rank];
    segment.count = counts[rank];
    if (segment.first > buffer_count ||
        segment.count > buffer_count - segment.first) {
      return Refused("segment " + std::to_string(rank) + " of " + name +
                     " is " + std::to_string(segment.count) +
                     " elements from " + std::to_string(segment.first) +
                     ", want it within " + std::to_string(buffer_count));
    }
    sum += segment.count;
  }
  if (displacements != nullptr) return {};
  return CheckCount(name, buffer_count, sum);
}

Outcome Maker::CheckCounts() {
  const muonshard_operation& o = operation_;
  const bool on_root = o.root == rank_;
  switch (o.kind) {
    case MUONSHARD_ALL_REDUCE:
      return CheckCount("out", o.out.count, o.in.count);
    case MUONSHARD_REDUCE:
      return CheckCount("out", o.out.count, on_root ? o.in.count : 0);
    case MUONSHARD_BROADCAST:
      return CheckCount("in", o.in.count, on_root ? o.out.count : 0);
    case MUONSHARD_REDUCE_SCATTER_V:
      if (Outcome bad = MakeSegments("in", o.in_counts, o.in_displacements,
                                     o.in.count, &call_.in_segments);
          !bad.ok()) {
        return bad;
      }
      return CheckCount("out", o.out.count, call_.in_segments[own()].count);
    case MUONSHARD_ALL_GATHER_V:
      if (Outcome bad = MakeSegments("out", o.out_counts, o.out_displacements,
                                     o.out.count, &call_.out_segments);
          !bad.ok()) {
        return bad;
      }
      return CheckCount("in", o.in.count, call_.out_segments[own()].count);
    case MUONSHARD_ALL_TO_ALL_V:
      if (Outcome bad = MakeSegments("in", o.in_counts, o.in_displacements,
                                     o.in.count, &call_.in_segments);
          !bad.ok()) {
        return bad;
      }
      if (Outcome bad = MakeSegments("out", o.out_counts, o.out_displacements,
                                     o.out.count, &call_.out_segments);
          !bad.ok()) {
        return bad;
      }
      return CheckCount("the segment to itself",
                        call_.out_segments[own()].count,
                        call_.in_segments[own()].count);
    case MUONSHARD_SEND:
      return CheckCount("out", o.out.count, 0);
    case MUONSHARD_RECV:
      return CheckCount("in", o.in.count, 0);
    default:
      return CheckCount("in and out", o.in.count + o.out.count, 0);
  }
}

Outcome Maker::CheckCount(const char* name, uint64_t got,
                          uint64_t wanted) const {
  if (got == wanted) return {};
  return Refused(std::string(name) + " has " + std::to_string(got) +
                 " elements, want " + std::to_string(wanted));
}

Outcome Maker::CheckOverlap() const {
  if (call_.in_count == 0 || call_.out_count == 0) return {};
  const size_t width = call_.width();
  // As integers, because the two need not be of one array.
  const auto in = reinterpret_cast<uintptr_t>(call_.in);
  const auto out = reinterpret_cast<uintptr_t>(call_.out);
  if (in + call_.in_count * width <= out ||
      out + call_.out_count * width <= in) {
    return {};
  }
  uintptr_t own_in = in;
  uintptr_t own_out = out;
  if (call_.kind == MUONSHARD_REDUCE_SCATTER_V) {
    own_in += call_.in_segments[own()].first * width;
  }
  if (call_.kind == MUONSHARD_ALL_GATHER_V) {
    own_out += call_.out_segments[own()].first * width;
  }
  if (call_.kind != MUONSHARD_ALL_TO_ALL_V && own_in == own_out) return {};
  return Refused("in and out overlap, and not where in place is allowed");
}

}  // namespace

size_t Call::width() const { return ByteWidth(reduction.data_type); }

Outcome MakeCall(const muonshard_operation& operation, int32_t rank,
                 int32_t size, Call* call) {
  return Maker(operation, rank, size, call).Make();
}

size_t ByteWidth(uint32_t data_type) {
  switch (data_type) {
    case MUONSHARD_U8:
      return 1;
    case MUONSHARD_BF16:
    case MUONSHARD_F16:
      return 2;
    case MUONSHARD_F32:
    case MUONSHARD_I32:
      return 4;
    case MUONSHARD_F64:
    case MUONSHARD_I64:
      return 8;
    default:
      return 0;
  }
}

std::string KindName(uint32_t kind) {
  if (kind < MUONSHARD_OPERATION_KINDS) return kKindNames[kind];
  return "operation of kind " + std::to_string(kind);
}

std::string Describe(const Call& call) {
  std::string text = KindName(call.kind);
  if (call.kind != MUONSHARD_BARRIER) {
    text += std::string(" ") + TypeName(call.reduction.data_type);
  }
  if (call.reduces()) text += " " + ReductionText(call.reduction);
  switch (call.kind) {
    case MUONSHARD_ALL_REDUCE:
    case MUONSHARD_SEND:
      text += " " + std::to_string(call.in_count);
      break;
    case MUONSHARD_REDUCE:
      text += " " + std::to_string(call.in_count) + " to root " +
              std::to_string(call.root);
      break;
    case MUONSHARD_BROADCAST:
      text += " " + std::to_string(call.out_count) + " from root " +
              std::to_string(call.root);
      break;
    case MUONSHARD_RECV:
      text += " " + std::to_string(call.out_count);
      break;
    default:
      if (!call.in_segments.empty()) text += " " + CountsText(call.in_segments);
      if (!call.out_segments.empty())
        text += " " + CountsText(call.out_segments);
  }
  if (call.fingerprint != 0) {
    char hex[32];
    std::snprintf(hex, sizeof(hex), " fingerprint %016" PRIx64,
                  call.fingerprint);
    text += hex;
  }
  return text + " label " + Quoted(call.label);
}

std::string Describe(const Call& call, uint64_t sequence,
                     const std::string& group) {
  std::string text =
      "operation " + std::to_string(sequence) + " (" + KindName(call.kind);
  if (!call.label.empty()) text += " " + Quoted(call.label);
  return text + ") of group " + Quoted(group);
}

}  // namespace muonshard::plugins
