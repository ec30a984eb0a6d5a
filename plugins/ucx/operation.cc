#include "plugins/ucx/operation.h"

#include <cstring>
#include <utility>

#include "plugins/ucx/communicator.h"

namespace muonshard::ucx {
namespace {

using plugins::Call;
using plugins::Outcome;
using plugins::Segment;

// One word after another, each mixed until every bit of it moves about half of
// the hash's.
class Digest {
 public:
  void Add(uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9fb21c651e98df25;
    hash_ ^= hash_ >> 32;
    hash_ *= 0x9fb21c651e98df25;
    hash_ ^= hash_ >> 29;
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
      schedule(communicator->ScheduleOf(call)),
      unready(producers) {}

std::string Operation::Describe() const {
  return plugins::Describe(call, sequence, communicator->identity().name);
}

void RoundState::Begin(const Round& round) {
  sends_left = round.sends.size();
  receives_left = round.receives.size();
  folded = 0;
  fold_waits_for.assign(round.folds.size(), 0);
  heard.assign(round.receives.size(), false);
  held.clear();
  held.resize(round.receives.size());
  lanes.assign(round.parts.size(), {});
  shared.assign(round.receives.size(), nullptr);
  for (const Receive& receive : round.receives) {
    if (receive.fold >= 0) ++fold_waits_for[static_cast<size_t>(receive.fold)];
  }
}

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
  return scratch.get() + piece.offset;
}

}  // namespace muonshard::ucx
