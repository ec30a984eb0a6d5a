// How the rounds of an operation run: copies, sends, receives, folds.

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "plugins/support/reduce.h"
#include "plugins/ucx/communicator.h"

namespace muonshard::ucx {
namespace {

using plugins::Outcome;

size_t Index(int32_t rank) { return static_cast<size_t>(rank); }

Outcome HasLeft(const Operation& operation, int32_t peer) {
  return {.code = MUONSHARD_E_ABORTED,
          .text = operation.Describe() + ": rank " + std::to_string(peer) +
                  " has left the group",
          .rank = peer,
          .sequence = operation.sequence};
}

}  // namespace

void Communicator::BeginRound(Operation& operation) {
  const Round& round = operation.round();
  for (const Copy& copy : round.copies) {
    if (operation.At(copy.to) == operation.At(copy.from)) continue;
    std::memmove(operation.At(copy.to), operation.At(copy.from), copy.to.bytes);
  }
  operation.state->Begin(round);
  // Peers' messages may have come, and all may be done on return.
  const auto keep = operation.communicator;
  const size_t round_index = operation.round_index;
  if (neighbours_ != nullptr && !operation.pairwise()) {
    if (round_index == 0) {
      neighbours_->channel().Describe(operation.sequence, operation.call);
    }
    neighbours_->SendMessages(operation);
    TakeFromNeighbours(operation);
    if (IsPast(operation, round_index)) return;
  }
  PostSends(operation);
  for (size_t i = 0; i < round.receives.size(); ++i) {
    if (IsPast(operation, round_index)) return;
    const Receive& receive = round.receives[i];
    if (!operation.pairwise() && IsNeighbour(receive.peer)) continue;
    std::optional<Come> come = inbox_.Take(
        {operation.pairwise() ? MessageKind::kPair : MessageKind::kGroup,
         receive.peer, operation.sequence, static_cast<uint32_t>(round_index),
         receive.number});
    if (!come.has_value()) continue;
    Deliver(operation, i, come->head, std::move(come->arrival));
  }
  if (IsPast(operation, round_index)) return;
  RunFolds(operation);
  CheckLeft(operation);
  EndRoundIfDone(operation);
}

bool Communicator::IsPast(const Operation& operation,
                          size_t round_index) const {
  return broken() || operation.ended || operation.round_index != round_index;
}

void Communicator::PostSends(Operation& operation) {
  const Round& round = operation.round();
  for (size_t i = 0; i < round.sends.size(); ++i) {
    const Send& send = round.sends[i];
    if (!operation.pairwise() && IsNeighbour(send.peer)) continue;
    Head head = {
        .kind = operation.pairwise() ? MessageKind::kPair : MessageKind::kGroup,
        .sender = identity_.rank,
        .sequence = operation.sequence,
        .round = static_cast<uint32_t>(operation.round_index),
        .number = send.number,
        .digest = operation.digest,
        .bytes = send.from.bytes};
    if (operation.round_index == 0 && send.number == 0) {
      head.text = operation.text();
    }
    operation.messages.emplace_front(&operation, false, i);
    bool ended = false;
    const Outcome sent = worker_->Send(
        send.peer, Encode(head),
        {operation.At(send.from), static_cast<size_t>(send.from.bytes)},
        &operation.messages.front(), &ended);
    if (!sent.ok()) {
      Outcome outcome = sent;
      outcome.text = operation.Describe() + ": " + outcome.text;
      outcome.rank = send.peer;
      outcome.sequence = operation.sequence;
      return Break(outcome);
    }
    bytes_sent_to_[Index(send.peer)] += send.from.bytes;
    if (ended) {
      --operation.state->sends_left;
    } else {
      ++operation.in_flight;
    }
  }
}

Operation* Communicator::Find(const Head& head, size_t* receive) {
  const auto is_of = [&](const Operation& operation) {
    if (!operation.started || operation.ended ||
        operation.sequence != head.sequence ||
        operation.round_index != head.round) {
      return false;
    }
    const std::vector<Receive>& receives = operation.round().receives;
    const auto found = std::find_if(receives.begin(), receives.end(),
                                    [&](const Receive& candidate) {
                                      return candidate.peer == head.sender &&
                                             candidate.number == head.number;
                                    });
    if (found == receives.end()) return false;
    *receive = static_cast<size_t>(found - receives.begin());
    return !operation.state->heard[*receive];
  };
  if (head.kind == MessageKind::kGroup) {
    if (queue_.empty() || !is_of(*queue_.front())) return nullptr;
    return queue_.front().get();
  }
  for (const auto& message : messages_) {
    if (message->call.kind == MUONSHARD_RECV &&
        message->call.peer == head.sender && is_of(*message)) {
      return message.get();
    }
  }
  return nullptr;
}

void Communicator::Deliver(Operation& operation, size_t receive,
                           const Head& head, std::unique_ptr<Arrival> arrival) {
  const Receive& wanted = operation.round().receives[receive];
  operation.state->heard[receive] = true;
  if (head.digest != operation.digest || head.bytes != wanted.to.bytes ||
      arrival->bytes() != head.bytes) {
    const bool agree = head.digest == operation.digest;
    return Break(
        {.code = MUONSHARD_E_MISMATCH,
         .text = operation.Describe() + ": rank " +
                 std::to_string(identity_.rank) + " called " +
                 operation.text() + "; rank " + std::to_string(head.sender) +
                 " called " +
                 (head.text.empty() ? "another operation" : head.text) +
                 (agree ? "; want " + std::to_string(wanted.to.bytes) +
                              " bytes of it, got " + std::to_string(head.bytes)
                        : ""),
         .rank = head.sender,
         .sequence = operation.sequence});
  }
  if (wanted.after_fold >= 0 &&
      operation.state->folded <= Index(wanted.after_fold)) {
    operation.state->held[receive] = std::move(arrival);
    return;
  }
  Fetch(operation, receive, *arrival);
}

void Communicator::Fetch(Operation& operation, size_t receive,
                         Arrival& arrival) {
  operation.messages.emplace_front(&operation, true, receive);
  bool ended = false;
  const Outcome fetched =
      arrival.Fetch(operation.At(operation.round().receives[receive].to),
                    &operation.messages.front(), &ended);
  if (!fetched.ok()) {
    Outcome outcome = fetched;
    outcome.text = operation.Describe() + ": " + outcome.text;
    outcome.sequence = operation.sequence;
    return Break(outcome);
  }
  if (ended) return ReceiveEnded(operation, receive);
  ++operation.in_flight;
}

void Communicator::ReceiveEnded(Operation& operation, size_t receive) {
  --operation.state->receives_left;
  const int32_t fold = operation.round().receives[receive].fold;
  if (fold >= 0) --operation.state->fold_waits_for[Index(fold)];
  RunFolds(operation);
  EndRoundIfDone(operation);
}

void Communicator::RunFolds(Operation& operation) {
  if (broken() || operation.ended) return;
  const Round& round = operation.round();
  if (round.folds_after_sends && operation.state->sends_left > 0) return;
  const size_t round_index = operation.round_index;
  while (operation.state->folded < round.folds.size() &&
         operation.state->fold_waits_for[operation.state->folded] == 0) {
    const size_t index = operation.state->folded;
    const Fold& fold = round.folds[index];
    std::vector<const std::byte*>& contributions =
        operation.state->contributions;
    contributions.clear();
    for (size_t r = 0; r < fold.contributions.size(); ++r) {
      const int32_t receive = fold.receives[r];
      const bool is_shared =
          receive >= 0 && operation.state->shared[Index(receive)] != nullptr;
      contributions.push_back(is_shared
                                  ? operation.state->shared[Index(receive)]
                                  : operation.At(fold.contributions[r]));
    }
    plugins::Reduce(operation.call.reduction, contributions, fold.count,
                    operation.At(fold.to));
    ++operation.state->folded;
    if (neighbours_ != nullptr) neighbours_->Release(operation, fold);
    if (all_neighbours_) continue;
    // Its room is free for a later piece.
    for (size_t r = 0; r < round.receives.size(); ++r) {
      if (round.receives[r].after_fold != static_cast<int32_t>(index) ||
          operation.state->held[r] == nullptr) {
        continue;
      }
      const std::unique_ptr<Arrival> arrival =
          std::move(operation.state->held[r]);
      Fetch(operation, r, *arrival);
      // What it let happen may have ended the round.
      if (IsPast(operation, round_index)) return;
    }
  }
}

void Communicator::EndRoundIfDone(Operation& operation) {
  if (broken() || operation.ended || operation.state->sends_left > 0 ||
      operation.state->receives_left > 0 ||
      operation.state->folded < operation.round().folds.size() ||
      (neighbours_ != nullptr && !neighbours_->MayHaveRead(operation))) {
    return;
  }
  if (operation.round_index + 1 < operation.schedule->rounds.size()) {
    ++operation.round_index;
    return BeginRound(operation);
  }
  End(operation, {});
}

bool Communicator::AdvanceNeighbours() {
  if (neighbours_ == nullptr) return false;
  bool any = false;
  while (!broken() && !queue_.empty() && queue_.front()->started) {
    const std::shared_ptr<Operation> operation = queue_.front();
    const bool sent = neighbours_->SendMessages(*operation);
    const bool taken = TakeFromNeighbours(*operation);
    if (!sent && !taken) break;
    any = true;
    if (broken()) break;
    RunFolds(*operation);
    EndRoundIfDone(*operation);
    if (operation->ended) StartAll();
  }
  return any;
}

bool Communicator::TakeFromNeighbours(Operation& operation) {
  Outcome failed;
  const bool any = neighbours_->TakeMessages(operation, &failed);
  if (failed.code == MUONSHARD_E_PEER) {
    Lose(failed.rank, "its process has ended");
  } else if (!failed.ok()) {
    Break(failed);
  }
  return any;
}

void Communicator::WakeNeighbour(int32_t peer) {
  if (lost_[Index(peer)]) return;
  bool ended = false;
  const Outcome sent = worker_->Send(
      peer, Encode({.kind = MessageKind::kWake, .sender = identity_.rank}), {},
      &notices_, &ended);
  if (sent.ok() && !ended) ++notices_.in_flight;
}

// A rank that has left sends nothing more, and takes nothing.
void Communicator::CheckLeft(const Operation& operation) {
  if (broken() || operation.ended || !operation.started) return;
  if (operation.call.kind == MUONSHARD_SEND &&
      gone_[Index(operation.call.peer)]) {
    return Break(HasLeft(operation, operation.call.peer));
  }
  const std::vector<Receive>& receives = operation.round().receives;
  for (size_t i = 0; i < receives.size(); ++i) {
    const int32_t peer = receives[i].peer;
    if (operation.state->heard[i] || !gone_[Index(peer)]) continue;
    return Break(HasLeft(operation, peer));
  }
  for (size_t i = 0; i < operation.state->lanes.size(); ++i) {
    const PeerPart& part = operation.round().parts[i];
    const Lane& lane = operation.state->lanes[i];
    if (!gone_[Index(part.peer)] || !IsNeighbour(part.peer)) continue;
    if (lane.sent < part.sends.size() || lane.exposed > 0) {
      return Break(HasLeft(operation, part.peer));
    }
  }
}

}  // namespace muonshard::ucx
