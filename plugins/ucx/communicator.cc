#include "plugins/ucx/communicator.h"

#include <algorithm>
#include <utility>

namespace muonshard::ucx {
namespace {

using plugins::Call;
using plugins::Outcome;
using plugins::Quoted;

// How long peers of a broken group may take what was sent to them.
constexpr int64_t kDrainNs = 200'000'000;

size_t Index(int32_t rank) { return static_cast<size_t>(rank); }

// `ended`: operations of all ranks.
bool CanStart(const Operation& operation, uint64_t ended) {
  if (operation.started || operation.ended || operation.unready > 0) {
    return false;
  }
  return operation.pairwise() ? operation.gate <= ended
                              : operation.sequence == ended;
}

}  // namespace

Communicator::Communicator(const plugins::Host& host, Identity identity,
                           const ScheduleOptions& schedule_options)
    : host_(host),
      identity_(std::move(identity)),
      schedule_options_(schedule_options),
      mutex_(host),
      changed_(host),
      gone_(Index(identity_.size)),
      lost_(Index(identity_.size)),
      mailbox_(host, identity_.name, identity_.size),
      calls_(MUONSHARD_OPERATION_KINDS),
      bytes_sent_to_(Index(identity_.size)) {}

void Communicator::Adopt(std::unique_ptr<Worker> worker,
                         std::unique_ptr<Channel> channel) {
  worker_ = std::move(worker);
  if (channel == nullptr) return;
  neighbours_ = std::make_unique<Neighbours>(
      identity_.rank, std::move(channel), &windows_,
      [this](int32_t peer) { WakeNeighbour(peer); }, &bytes_sent_to_);
  schedule_options_.piece_bytes = kChunkBytes;
  all_neighbours_ = true;
  for (int32_t peer = 0; peer < identity_.size; ++peer) {
    if (peer != identity_.rank && !IsNeighbour(peer)) all_neighbours_ = false;
  }
}

std::shared_ptr<const Schedule> Communicator::ScheduleOf(const Call& call) {
  return schedules_.Of(call, identity_.rank, identity_.size, schedule_options_);
}

void Communicator::Enqueue(const std::shared_ptr<Operation>& operation) {
  WakeService();
  ++calls_[operation->call.kind];
  if (operation->pairwise()) {
    const bool sends = operation->call.kind == MUONSHARD_SEND;
    operation->sequence = pair_posted_[{operation->call.peer, sends}]++;
    operation->gate = posted_;
    messages_.push_back(operation);
  } else {
    operation->sequence = posted_++;
    queue_.push_back(operation);
  }
  StartAll();
}

void Communicator::ProducerEnded(Operation& operation, muonshard_code code,
                                 const char* text) {
  --operation.unready;
  if (operation.ended || broken()) return;
  WakeService();
  if (code != MUONSHARD_OK) {
    return Break({.code = code,
                  .text = operation.Describe() + ": a producer on rank " +
                          std::to_string(identity_.rank) +
                          " failed: " + (text == nullptr ? "" : text),
                  .rank = identity_.rank,
                  .sequence = operation.sequence});
  }
  StartAll();
}

void Communicator::StartAll() {
  // An operation that ends at once may let others start.
  for (bool more = true; more && !broken();) {
    more = false;
    std::vector<std::shared_ptr<Operation>> ready;
    if (!queue_.empty() && CanStart(*queue_.front(), ended_)) {
      ready.push_back(queue_.front());
    }
    for (const std::shared_ptr<Operation>& message : messages_) {
      if (CanStart(*message, ended_)) ready.push_back(message);
    }
    for (const std::shared_ptr<Operation>& operation : ready) {
      if (broken()) return;
      operation->started = true;
      operation->state = spare_state_ != nullptr
                             ? std::move(spare_state_)
                             : std::make_unique<RoundState>();
      if (!all_neighbours_ && operation->schedule->scratch_bytes > 0) {
        operation->scratch.reset(
            new std::byte[operation->schedule->scratch_bytes]);
      }
      BeginRound(*operation);
      more = true;
    }
  }
}

void Communicator::End(Operation& operation, const Outcome& outcome) {
  if (operation.ended) return;
  operation.ended = true;
  operation.outcome = outcome;
  if (operation.state != nullptr) spare_state_ = std::move(operation.state);
  const auto is_it = [&](const auto& other) {
    return other.get() == &operation;
  };
  std::shared_ptr<Operation> kept;
  if (operation.pairwise()) {
    const auto at = std::find_if(messages_.begin(), messages_.end(), is_it);
    kept = *at;
    messages_.erase(at);
  } else {
    // Not the first one only where the group is broken.
    const auto at = std::find_if(queue_.begin(), queue_.end(), is_it);
    kept = *at;
    queue_.erase(at);
    ++ended_;
  }
  for (const Operation::Callback& callback : operation.callbacks) {
    callbacks_.push_back([callback, kept] {
      muonshard_status status;
      plugins::Report(kept->outcome, &status);
      callback.function(callback.argument, &status);
    });
  }
  operation.callbacks.clear();
  ended_operations_.push_back(std::move(kept));
  changed_.NotifyAll();
}

void Communicator::Break(const Outcome& outcome) {
  if (broken()) return;
  failure_ = outcome;
  TellPeers({.kind = MessageKind::kBreak,
             .sender = identity_.rank,
             .sequence = outcome.sequence,
             .code = outcome.code,
             .culprit = outcome.rank,
             .text = outcome.text});
  drop_at_ns_ = host_.Now() + kDrainNs;
  inbox_.Clear();
  if (neighbours_ != nullptr) neighbours_->channel().SetBroken();
  EndDrained();
  changed_.NotifyAll();
}

// Memory is the caller's again when its operation ends, so that one that UCX
// still knows of ends later: when peers have taken what was sent, or endpoints
// are closed.
void Communicator::EndDrained() {
  const auto has_drained = [](const auto& o) { return o->in_flight == 0; };
  for (auto at = queue_.begin();
       (at = std::find_if(queue_.begin(), queue_.end(), has_drained)) !=
       queue_.end();) {
    End(**at, failure_);
  }
  for (auto at = messages_.begin();
       (at = std::find_if(messages_.begin(), messages_.end(), has_drained)) !=
       messages_.end();) {
    End(**at, failure_);
  }
  if (!idle()) {
    WakeService();
    if (host_.Now() >= drop_at_ns_) worker_->Close();
  }
}

void Communicator::Lose(int32_t peer, const std::string& how) {
  lost_[Index(peer)] = true;
  if (gone_[Index(peer)]) return;
  gone_[Index(peer)] = true;
  Break({.code = MUONSHARD_E_PEER,
         .text = "group " + Quoted(identity_.name) + " lost rank " +
                 std::to_string(peer) + ": " + how,
         .rank = peer});
}

void Communicator::Leave() {
  if (left_) return;
  left_ = true;
  WakeService();
  TellPeers({.kind = MessageKind::kLeave, .sender = identity_.rank});
  if (!broken()) {
    failure_ = {.code = MUONSHARD_E_ABORTED,
                .text = "rank " + std::to_string(identity_.rank) +
                        " has left group " + Quoted(identity_.name),
                .rank = identity_.rank};
    drop_at_ns_ = host_.Now() + kDrainNs;
  }
  inbox_.Clear();
  if (neighbours_ != nullptr && !idle()) neighbours_->channel().SetBroken();
  EndDrained();
  changed_.NotifyAll();
}

bool Communicator::all_gone() const {
  const auto count = std::count(gone_.begin(), gone_.end(), true);
  return count + 1 >= identity_.size;
}

void Communicator::WakeService() {
  if (wake_ != nullptr) std::exchange(wake_, nullptr)();
}

void Communicator::TellPeers(const Head& head) {
  WakeService();
  if (worker_ == nullptr) return;
  for (int32_t peer = 0; peer < identity_.size; ++peer) {
    if (peer == identity_.rank || lost_[Index(peer)]) continue;
    // A peer that cannot be told has its deadline.
    bool ended = false;
    const Outcome sent =
        worker_->Send(peer, Encode(head), {}, &notices_, &ended);
    if (sent.ok() && !ended) ++notices_.in_flight;
  }
}

bool Communicator::Advance(bool in_a_hurry) {
  // What neighbours send needs UCX only to break and to leave.
  constexpr uint32_t kPollsBetweenProgress = 16;
  bool any = false;
  if (worker_ != nullptr &&
      (!in_a_hurry || !all_neighbours_ || broken() || !messages_.empty() ||
       polls_++ % kPollsBetweenProgress == 0)) {
    any = worker_->Progress();
  }
  // First, for what a neighbour had sent before it left counts.
  if (AdvanceNeighbours()) any = true;
  while (!mailbox_.empty()) {
    any = true;
    // Transfers first, for they may let what has come begin; and what a peer
    // had sent before it was lost counts.
    if (!mailbox_.ended.empty()) {
      const Mailbox::EndedTransfer ended = std::move(mailbox_.ended.front());
      mailbox_.ended.pop_front();
      HandleEnd(ended);
    } else if (!mailbox_.come.empty()) {
      Come come = std::move(mailbox_.come.front());
      mailbox_.come.pop_front();
      Handle(std::move(come));
    } else {
      const auto [peer, why] = std::move(mailbox_.lost.front());
      mailbox_.lost.pop_front();
      Lose(peer, why);
    }
  }
  if (any) {
    WakeService();
    StartAll();
  }
  if (broken()) {
    EndDrained();
  } else if (!in_a_hurry) {
    CheckDeadlines();
  }
  ended_operations_.clear();
  return any;
}

void Communicator::HandleEnd(const Mailbox::EndedTransfer& ended) {
  Operation& operation = *ended.message->operation;
  --operation.in_flight;
  if (broken()) return;
  if (!ended.outcome.ok()) {
    Outcome outcome = ended.outcome;
    outcome.text = operation.Describe() + ": " + outcome.text;
    outcome.sequence = operation.sequence;
    return Break(outcome);
  }
  if (ended.message->is_receive) {
    return ReceiveEnded(operation, ended.message->index);
  }
  --operation.state->sends_left;
  RunFolds(operation);
  EndRoundIfDone(operation);
}

void Communicator::Handle(Come come) {
  const Head& head = come.head;
  if (head.kind == MessageKind::kBreak) {
    return Break({.code = head.code,
                  .text = head.text,
                  .rank = head.culprit,
                  .sequence = head.sequence});
  }
  if (head.kind == MessageKind::kWake) return;
  if (head.kind == MessageKind::kLeave) {
    gone_[Index(head.sender)] = true;
    if (broken()) return;
    if (!queue_.empty()) CheckLeft(*queue_.front());
    const auto messages = messages_;
    for (const auto& message : messages) {
      if (!broken()) CheckLeft(*message);
    }
    return;
  }
  if (broken()) return;
  size_t receive = 0;
  if (Operation* const operation = Find(head, &receive); operation != nullptr) {
    return Deliver(*operation, receive, head, std::move(come.arrival));
  }
  inbox_.Add(std::move(come));
}

void Communicator::Count(muonshard_counters* counters) const {
  std::fill(std::begin(counters->calls), std::end(counters->calls), 0);
  std::copy(calls_.begin(), calls_.end(), counters->calls);
  std::copy(bytes_sent_to_.begin(), bytes_sent_to_.end(),
            counters->bytes_sent_to);
}

void Communicator::DestroyWorker() {
  inbox_.Clear();
  mailbox_.come.clear();
  // What did not end in time ends now: UCX forgets it with the worker.
  const auto drop_held = [](Operation& operation) {
    if (operation.state != nullptr) operation.state->held.clear();
  };
  for (const auto& operation : queue_) drop_held(*operation);
  for (const auto& message : messages_) drop_held(*message);
  worker_.reset();
  mailbox_.ended.clear();
  while (!queue_.empty()) End(*queue_.front(), failure_);
  while (!messages_.empty()) End(*messages_.front(), failure_);
  ended_operations_.clear();
}

std::vector<std::function<void()>> Communicator::TakeCallbacks() {
  return std::exchange(callbacks_, {});
}

}  // namespace muonshard::ucx
