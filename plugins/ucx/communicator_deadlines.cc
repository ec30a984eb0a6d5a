// When operations are too late, and whom they miss.

#include <algorithm>

#include "plugins/ucx/communicator.h"

namespace muonshard::ucx {
namespace {

using plugins::Outcome;
using plugins::RankList;

// How long after its deadline an operation waits for the reason of a neighbour
// whose group is known to have broken: it may know more.
constexpr int64_t kReasonNs = 200'000'000;

size_t Index(int32_t rank) { return static_cast<size_t>(rank); }

bool AnyIsBroken(Neighbours& neighbours, int32_t size) {
  for (int32_t peer = 0; peer < size; ++peer) {
    if (neighbours.Has(peer) && neighbours.channel().IsBroken(peer)) {
      return true;
    }
  }
  return false;
}

}  // namespace

int64_t Communicator::NextDeadline() const {
  if (broken()) {
    return idle() ? INT64_MAX : drop_at_ns_;
  }
  int64_t next = INT64_MAX;
  for (const auto& operation : queue_) {
    next = std::min(next, operation->call.deadline_ns);
  }
  for (const auto& message : messages_) {
    next = std::min(next, message->call.deadline_ns);
  }
  if (next < INT64_MAX - kReasonNs && neighbours_ != nullptr &&
      AnyIsBroken(*neighbours_, identity_.size)) {
    next += kReasonNs;
  }
  return next;
}

void Communicator::CheckDeadlines() {
  if (broken() || idle()) return;
  const int64_t now = host_.Now();
  if (NextDeadline() > now) return;
  for (const auto& operation : queue_) {
    if (operation->call.deadline_ns <= now) return Break(TooLate(*operation));
  }
  for (const auto& message : messages_) {
    if (message->call.deadline_ns <= now) return Break(TooLate(*message));
  }
}

std::vector<int32_t> Communicator::Missing(const Operation& operation) const {
  std::vector<bool> missing(Index(identity_.size));
  if (operation.started) {
    for (size_t i = 0; i < operation.round().receives.size(); ++i) {
      if (!operation.state->heard[i]) {
        missing[Index(operation.round().receives[i].peer)] = true;
      }
    }
    // A neighbour may have said all, and not read what it was sent.
    for (size_t i = 0; i < operation.round().parts.size(); ++i) {
      const PeerPart& part = operation.round().parts[i];
      const Lane& lane = operation.state->lanes[i];
      if (!operation.pairwise() && IsNeighbour(part.peer) &&
          (lane.sent < part.sends.size() || lane.exposed > 0)) {
        missing[Index(part.peer)] = true;
      }
    }
  } else if (!operation.pairwise()) {
    // What has come before the own producers have ended waits in the inbox.
    for (int32_t peer = 0; peer < identity_.size; ++peer) {
      missing[Index(peer)] =
          peer != identity_.rank &&
          !inbox_.Has({MessageKind::kGroup, peer, operation.sequence, 0, 0}) &&
          !(IsNeighbour(peer) && neighbours_->channel().Next(peer) != nullptr);
    }
  }
  std::vector<int32_t> ranks;
  for (int32_t peer = 0; peer < identity_.size; ++peer) {
    if (missing[Index(peer)]) ranks.push_back(peer);
  }
  return ranks;
}

Outcome Communicator::TooLate(const Operation& operation) const {
  const Operation* held_up_by = &operation;
  std::string text = operation.Describe() + ": deadline passed";
  const uint64_t before =
      operation.pairwise() ? operation.gate : operation.sequence;
  if (before > ended_ && !queue_.empty()) {
    held_up_by = queue_.front().get();
    text += " behind operation " + std::to_string(held_up_by->sequence);
  }
  const std::vector<int32_t> missing = Missing(*held_up_by);
  if (!missing.empty()) text += "; missing " + RankList(missing);
  int32_t culprit = missing.empty() ? -1 : missing.front();
  if (held_up_by->unready > 0) {
    text += "; the producers have not ended on rank " +
            std::to_string(identity_.rank);
    if (culprit < 0) culprit = identity_.rank;
  }
  return {.code = MUONSHARD_E_TIMEOUT,
          .text = text,
          .rank = culprit,
          .sequence = operation.sequence};
}

}  // namespace muonshard::ucx
