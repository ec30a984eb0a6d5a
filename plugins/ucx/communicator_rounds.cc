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

}  // namespace

void Communicator::BeginRound(Operation& operation) {
  const Round& round = operation.round();
  for (const Copy& copy : round.copies) {
    std::memmove(operation.At(copy.to), operation.At(copy.from), copy.to.bytes);
  }
  operation.sends_left = round.sends.size();
  operation.receives_left = round.receives.size();
  operation.folds_left = round.folds.size();
  operation.fold_waits_for.assign(round.folds.size(), 0);
  operation.folded.assign(round.folds.size(), false);
  operation.heard.assign(round.receives.size(), false);
  operation.held.clear();
  operation.held.resize(round.receives.size());
  for (const Receive& receive : round.receives) {
    if (receive.fold >= 0) ++operation.fold_waits_for[Index(receive.fold)];
  }
  // Peers' messages may have come, and all may be done on return.
  const auto keep = operation.communicator;
  PostSends(operation);
  const size_t round_index = operation.round_index;
  for (size_t i = 0; i < round.receives.size(); ++i) {
    if (IsPast(operation, round_index)) return;
    const Receive& receive = round.receives[i];
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
    Head head = {
        .kind = operation.pairwise() ? MessageKind::kPair : MessageKind::kGroup,
        .sender = identity_.rank,
        .sequence = operation.sequence,
        .round = static_cast<uint32_t>(operation.round_index),
        .number = send.number,
        .digest = operation.digest,
        .bytes = send.from.bytes};
    if (operation.round_index == 0 && send.number == 0) {
      head.text = operation.text;
    }
    operation.messages.emplace_back(&operation, false, i);
    bool ended = false;
    const Outcome sent = worker_->Send(
        send.peer, Encode(head),
        {operation.At(send.from), static_cast<size_t>(send.from.bytes)},
        &operation.messages.back(), &ended);
    if (!sent.ok()) {
      Outcome outcome = sent;
      outcome.text = Describe(operation) + ": " + outcome.text;
      outcome.rank = send.peer;
      outcome.sequence = operation.sequence;
      return Break(outcome);
    }
    bytes_sent_to_[Index(send.peer)] += send.from.bytes;
    if (ended) {
      --operation.sends_left;
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
    return !operation.heard[*receive];
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
  operation.heard[receive] = true;
  if (head.digest != operation.digest || head.bytes != wanted.to.bytes ||
      arrival->bytes() != head.bytes) {
    const bool agree = head.digest == operation.digest;
    return Break(
        {.code = MUONSHARD_E_MISMATCH,
         .text = Describe(operation) + ": rank " +
                 std::to_string(identity_.rank) + " called " + operation.text +
                 "; rank " + std::to_string(head.sender) + " called " +
                 (head.text.empty() ? "another operation" : head.text) +
                 (agree ? "; want " + std::to_string(wanted.to.bytes) +
                              " bytes of it, got " + std::to_string(head.bytes)
                        : ""),
         .rank = head.sender,
         .sequence = operation.sequence});
  }
  if (wanted.after_fold >= 0 && !operation.folded[Index(wanted.after_fold)]) {
    operation.held[receive] = std::move(arrival);
    return;
  }
  Fetch(operation, receive, *arrival);
}

void Communicator::Fetch(Operation& operation, size_t receive,
                         Arrival& arrival) {
  operation.messages.emplace_back(&operation, true, receive);
  bool ended = false;
  const Outcome fetched =
      arrival.Fetch(operation.At(operation.round().receives[receive].to),
                    &operation.messages.back(), &ended);
  if (!fetched.ok()) {
    Outcome outcome = fetched;
    outcome.text = Describe(operation) + ": " + outcome.text;
    outcome.sequence = operation.sequence;
    return Break(outcome);
  }
  if (ended) return ReceiveEnded(operation, receive);
  ++operation.in_flight;
}

void Communicator::ReceiveEnded(Operation& operation, size_t receive) {
  --operation.receives_left;
  const int32_t fold = operation.round().receives[receive].fold;
  if (fold >= 0) --operation.fold_waits_for[Index(fold)];
  RunFolds(operation);
  EndRoundIfDone(operation);
}

void Communicator::RunFolds(Operation& operation) {
  if (broken() || operation.ended || operation.folds_left == 0) return;
  const Round& round = operation.round();
  if (round.folds_after_sends && operation.sends_left > 0) return;
  const size_t round_index = operation.round_index;
  for (size_t i = 0; i < round.folds.size(); ++i) {
    if (operation.folded[i] || operation.fold_waits_for[i] > 0) continue;
    const Fold& fold = round.folds[i];
    std::vector<const std::byte*> contributions;
    for (const Piece& piece : fold.contributions) {
      contributions.push_back(operation.At(piece));
    }
    plugins::Reduce(operation.call.reduction, contributions, fold.count,
                    operation.At(fold.to));
    operation.folded[i] = true;
    --operation.folds_left;
    // Its room is free for a later piece.
    for (size_t r = 0; r < round.receives.size(); ++r) {
      if (round.receives[r].after_fold != static_cast<int32_t>(i) ||
          operation.held[r] == nullptr) {
        continue;
      }
      const std::unique_ptr<Arrival> arrival = std::move(operation.held[r]);
      Fetch(operation, r, *arrival);
      // What it let happen may have ended the round.
      if (IsPast(operation, round_index)) return;
    }
  }
}

void Communicator::EndRoundIfDone(Operation& operation) {
  if (broken() || operation.ended || operation.sends_left > 0 ||
      operation.receives_left > 0 || operation.folds_left > 0) {
    return;
  }
  if (operation.round_index + 1 < operation.schedule.rounds.size()) {
    ++operation.round_index;
    return BeginRound(operation);
  }
  End(operation, {});
}

Outcome Communicator::HasLeft(const Operation& operation, int32_t peer) const {
  return {.code = MUONSHARD_E_ABORTED,
          .text = Describe(operation) + ": rank " + std::to_string(peer) +
                  " has left the group",
          .rank = peer,
          .sequence = operation.sequence};
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
    if (operation.heard[i] || !gone_[Index(peer)]) continue;
    return Break(HasLeft(operation, peer));
  }
}

}  // namespace muonshard::ucx
