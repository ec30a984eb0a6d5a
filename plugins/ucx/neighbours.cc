#include "plugins/ucx/neighbours.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "collectives/plugin_abi.h"

namespace muonshard::ucx {
namespace {

using plugins::Outcome;

// Smaller payloads are copied, so that their senders need not wait.
constexpr uint64_t kExposedBytesMin = 4096;
constexpr uint64_t kReadInProcessBytesMin = 32 * 1024;

size_t Index(int32_t rank) { return static_cast<size_t>(rank); }

}  // namespace

void Neighbours::Wake(int32_t peer) {
  if (channel_->MustWake(peer)) wake_(peer);
}

bool Neighbours::SendMessages(Operation& operation) {
  bool any = false;
  for (size_t i = 0; i < operation.state->lanes.size(); ++i) {
    const PeerPart& part = operation.round().parts[i];
    if (!Has(part.peer)) continue;
    if (SendTo(operation, part, operation.state->lanes[i])) any = true;
  }
  return any;
}

bool Neighbours::SendTo(Operation& operation, const PeerPart& part,
                        Lane& lane) {
  bool any = false;
  while (lane.sent < part.sends.size() && SendSome(operation, part, lane)) {
    any = true;
  }
  if (any) Wake(part.peer);
  if (lane.exposed > 0) {
    const uint64_t released = channel_->TakeReleased(part.peer);
    lane.exposed -= released;
    operation.state->sends_left -= released;
    any = any || released > 0;
  }
  return any;
}

// What has room of the lane's next message.
bool Neighbours::SendSome(Operation& operation, const PeerPart& part,
                          Lane& lane) {
  const Send& send = operation.round().sends[part.sends[lane.sent]];
  const Channel::Message message = {
      .sequence = operation.sequence,
      .digest = operation.digest,
      .total = part.bytes_sent,
      .round = static_cast<uint32_t>(operation.round_index),
      .number = send.number};
  const std::byte* const from = operation.At(send.from);
  const uint64_t whole = send.from.bytes;
  uint64_t bytes = whole - lane.sent_bytes;
  int32_t window = kInProcess;
  // Another process's address is a number.
  uint64_t offset = reinterpret_cast<uint64_t>(from);
  const bool is_exposed =
      lane.sent_bytes == 0 &&
      ((whole >= kExposedBytesMin &&
        windows_.Find(from, whole, &window, &offset)) ||
       (whole >= kReadInProcessBytesMin && !send.is_folded &&
        channel_->is_read_by(part.peer)));
  if (is_exposed) {
    if (!channel_->SendExposed(part.peer, message, window, offset, whole)) {
      return false;
    }
    ++lane.exposed;
  } else {
    bytes = std::min(bytes, kChunkBytes);
    if (!channel_->Send(part.peer, message, from + lane.sent_bytes, bytes)) {
      return false;
    }
  }
  (*bytes_sent_to_)[Index(part.peer)] += bytes;
  lane.sent_bytes += bytes;
  if (lane.sent_bytes < whole) return true;
  ++lane.sent;
  lane.sent_bytes = 0;
  if (!is_exposed) --operation.state->sends_left;
  return true;
}

bool Neighbours::TakeMessages(Operation& operation, Outcome* failed) {
  bool any = false;
  for (size_t i = 0; failed->ok() && i < operation.state->lanes.size(); ++i) {
    const PeerPart& part = operation.round().parts[i];
    if (!Has(part.peer)) continue;
    if (TakeFrom(operation, part, operation.state->lanes[i], failed)) {
      any = true;
    }
  }
  return any;
}

bool Neighbours::TakeFrom(Operation& operation, const PeerPart& part,
                          Lane& lane, Outcome* failed) {
  bool any = false;
  bool released = false;
  while (lane.taken < part.receives.size()) {
    const Notice* const notice = channel_->Next(part.peer);
    if (notice == nullptr) break;
    any = true;
    const uint32_t index = part.receives[lane.taken];
    const Receive& receive = operation.round().receives[index];
    if (!IsOf(operation, part, receive, lane, *notice)) {
      *failed = Mismatch(operation, part, *notice);
      return true;
    }
    const std::byte* const payload = PayloadOf(part.peer, *notice);
    operation.state->heard[index] = true;
    if (notice->window != kInChunk) lane.has_exposed = true;
    if (receive.fold >= 0) {
      operation.state->shared[index] = payload;
      --operation.state->fold_waits_for[Index(receive.fold)];
    } else {
      const Outcome copied =
          CopyFrom(operation, receive, lane, part.peer, *notice, payload);
      if (copied.code == MUONSHARD_IN_PROGRESS) return released;
      *failed = copied;
      if (!failed->ok()) return true;
    }
    lane.taken_bytes += notice->bytes;
    channel_->Take(part.peer);
    if (receive.fold < 0) {
      channel_->Release(part.peer);
      released = true;
    }
    if (lane.taken_bytes < receive.to.bytes) continue;
    ++lane.taken;
    lane.taken_bytes = 0;
    --operation.state->receives_left;
  }
  if (released) Wake(part.peer);
  return any;
}

Outcome Neighbours::CopyFrom(Operation& operation, const Receive& receive,
                             const Lane& lane, int32_t peer,
                             const Notice& notice,
                             const std::byte* payload) const {
  if (notice.bytes == 0) return {};
  std::byte* const to = operation.At(receive.to) + lane.taken_bytes;
  if (notice.window != kInProcess) {
    std::memcpy(to, payload, notice.bytes);
    return {};
  }
  const int error = channel_->ReadInProcess(peer, notice, to);
  if (error == 0) return {};
  // A rank whose group has broken may have freed it, and tells why.
  if (error != ESRCH && channel_->IsBroken(peer)) {
    return {.code = MUONSHARD_IN_PROGRESS};
  }
  return {.code = error == ESRCH ? MUONSHARD_E_PEER : MUONSHARD_E_SYSTEM,
          .text = operation.Describe() + ": the memory of rank " +
                  std::to_string(peer) +
                  " cannot be read: " + std::strerror(error),
          .rank = peer,
          .sequence = operation.sequence};
}

// Whether the notice is of what is to be received next.
bool Neighbours::IsOf(const Operation& operation, const PeerPart& part,
                      const Receive& receive, const Lane& lane,
                      const Notice& notice) const {
  const uint64_t left = receive.to.bytes - lane.taken_bytes;
  return notice.sequence == operation.sequence &&
         notice.digest == operation.digest &&
         notice.round == operation.round_index &&
         notice.number == receive.number &&
         notice.total == part.bytes_received &&
         (receive.fold >= 0 ? notice.bytes == left : notice.bytes <= left) &&
         (notice.bytes > 0 || left == 0) &&
         (notice.window == kInProcess
              ? receive.fold < 0
              : notice.bytes == 0 || PayloadOf(part.peer, notice) != nullptr);
}

const std::byte* Neighbours::PayloadOf(int32_t peer,
                                       const Notice& notice) const {
  if (notice.window == kInProcess) return nullptr;
  return notice.window == kInChunk
             ? channel_->PayloadInChunk(peer, notice)
             : windows_.At(peer, notice.window, notice.offset, notice.bytes);
}

Outcome Neighbours::Mismatch(const Operation& operation, const PeerPart& part,
                             const Notice& notice) const {
  const std::string called = channel_->CallOf(part.peer, notice.sequence);
  const bool agree = notice.digest == operation.digest;
  return {
      .code = MUONSHARD_E_MISMATCH,
      .text = operation.Describe() + ": rank " + std::to_string(rank_) +
              " called " + operation.text() + "; rank " +
              std::to_string(part.peer) + " called " +
              (called.empty() ? "another operation" : called) +
              (agree ? "; want " + std::to_string(part.bytes_received) +
                           " bytes of it, got " + std::to_string(notice.total)
                     : ""),
      .rank = part.peer,
      .sequence = operation.sequence};
}

void Neighbours::Release(Operation& operation, const Fold& fold) {
  for (size_t r = 0; r < fold.receives.size(); ++r) {
    if (fold.receives[r] < 0) continue;
    const std::byte*& shared = operation.state->shared[Index(fold.receives[r])];
    if (shared == nullptr) continue;
    shared = nullptr;
    channel_->Release(static_cast<int32_t>(r));
    Wake(static_cast<int32_t>(r));
  }
}

// A neighbour whose group has broken may have changed what was read from its
// windows. Then its reason, its end or the deadline ends the operation.
bool Neighbours::MayHaveRead(const Operation& operation) const {
  for (size_t i = 0; i < operation.state->lanes.size(); ++i) {
    if (operation.state->lanes[i].has_exposed &&
        channel_->IsBroken(operation.round().parts[i].peer)) {
      return false;
    }
  }
  return true;
}

}  // namespace muonshard::ucx
