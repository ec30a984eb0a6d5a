#include "plugins/ucx/operation.h"

#include <cstring>
#include <utility>

#include "plugins/ucx/communicator.h"

namespace muonshard::ucx {
namespace {

using plugins::Call;
using plugins::Outcome;
using plugins::Segment;

// FNV-1a over words.
class Digest {
 public:
  void Add(uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash_ = (hash_ ^ ((word >> shift) & 0xff)) * 0x100000001b3;
    }
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

void AddCounts(const std::vector<Segment>& segments, Digest* digest) {
  for (const Segment& segment : segments) digest->Add(segment.count);
}

}  // namespace

uint64_t DigestOf(const Call& call) {
  Digest digest;
  digest.Add(call.pairwise() ? uint64_t{MUONSHARD_SEND} : call.kind);
  if (call.kind != MUONSHARD_BARRIER) {
    digest.Add(call.reduction.data_type);
  }
  digest.Add(call.fingerprint);
  if (call.reduces()) {
    digest.Add(call.reduction.kind);
    uint64_t scale = 0;
    if (call.reduction.kind == MUONSHARD_SCALED_SUM) {
      std::memcpy(&scale, &call.reduction.scale, sizeof(scale));
    }
    digest.Add(scale);
  }
  switch (call.kind) {
    case MUONSHARD_ALL_REDUCE:
      digest.Add(call.in_count);
      break;
    case MUONSHARD_REDUCE:
      digest.Add(static_cast<uint64_t>(call.root));
      digest.Add(call.in_count);
      break;
    case MUONSHARD_BROADCAST:
      digest.Add(static_cast<uint64_t>(call.root));
      digest.Add(call.out_count);
      break;
    case MUONSHARD_REDUCE_SCATTER_V:
      AddCounts(call.in_segments, &digest);
      break;
    case MUONSHARD_ALL_GATHER_V:
      AddCounts(call.out_segments, &digest);
      break;
    case MUONSHARD_SEND:
      digest.Add(call.in_count);
      break;
    case MUONSHARD_RECV:
      digest.Add(call.out_count);
      break;
    default:
      // Whether parts of an all-to-all fit is seen by their bytes.
      break;
  }
  return digest.value();
}

void Operation::Message::Ended(const Outcome& outcome) {
  operation->communicator->mailbox().ended.push_back({this, outcome});
}

Operation::Operation(std::shared_ptr<Communicator> posted_to, Call posted,
                     int32_t producers)
    : communicator(std::move(posted_to)),
      call(std::move(posted)),
      digest(DigestOf(call)),
      text(plugins::Describe(call)),
      schedule(communicator->ScheduleOf(call)),
      unready(producers) {}

std::byte* Operation::At(const Piece& piece) {
  // An empty buffer may be null, and stays so.
  if (piece.bytes == 0) return nullptr;
  switch (piece.space) {
    case Space::kIn:
      // Sources are read alone.
      return const_cast<std::byte*>(call.in) + piece.offset;
    case Space::kOut:
      return call.out + piece.offset;
    case Space::kScratch:
      break;
  }
  return scratch.data() + piece.offset;
}

}  // namespace muonshard::ucx
