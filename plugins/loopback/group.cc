#include "plugins/loopback/group.h"

#include <algorithm>
#include <numeric>

#include "plugins/loopback/injection.h"
#include "plugins/loopback/mismatch.h"
#include "plugins/loopback/model/network_clock.h"
#include "plugins/loopback/shares.h"

namespace muonshard::loopback {

Group::Group(std::shared_ptr<Domain> domain, std::string name, int32_t size)
    : domain_(std::move(domain)),
      name_(std::move(name)),
      size_(size),
      members_(Index(size)),
      program_ranks_(Index(size)),
      left_(Index(size)),
      posted_(Index(size)) {
  std::iota(program_ranks_.begin(), program_ranks_.end(), 0);
}

void Group::NotifyMembers() {
  for (Communicator* member : members_) {
    if (member != nullptr) member->condition().NotifyAll();
  }
}

void Group::Post(const std::shared_ptr<Work>& work) {
  Communicator& communicator = *work->communicator;
  communicator.WorkPosted(*work, domain_->host().CurrentTask());
  if (broken() || communicator.dead()) return EndWork(*work);
  const bool message = work->call.pairwise();
  const Slot& slot = message ? PlaceMessage(work) : PlaceAll(work);
  for (size_t index = 0; somebody_left_ && index < slot.ranks.size(); ++index) {
    const int32_t rank = slot.ranks[index];
    if (!left_[Index(rank)]) continue;
    Outcome left = RankLeft(rank, "before " + DescribeSlot(slot));
    left.sequence = slot.sequence;
    return Break(left);
  }
  Advance();
}

Slot& Group::PlaceAll(const std::shared_ptr<Work>& work) {
  const size_t rank = Index(work->communicator->rank());
  work->sequence = posted_[rank]++;
  if (work->sequence == ended_ + slots_.size()) {
    std::vector<int32_t> ranks(Index(size_));
    std::iota(ranks.begin(), ranks.end(), 0);
    slots_.push_back(std::make_shared<Slot>(work->sequence, std::move(ranks)));
  }
  Slot& slot = *slots_[work->sequence - ended_];
  slot.Place(rank, work);
  return slot;
}

Slot& Group::PlaceMessage(const std::shared_ptr<Work>& work) {
  const int32_t rank = work->communicator->rank();
  const size_t end = work->call.kind == MUONSHARD_SEND ? 0 : 1;
  const int32_t sender = end == 0 ? rank : work->call.peer;
  const int32_t receiver = end == 0 ? work->call.peer : rank;
  Messages& pair = pairs_[{sender, receiver}];
  work->sequence = pair.posted[end]++;
  work->gate = posted_[Index(rank)];
  if (work->sequence == pair.first + pair.slots.size()) {
    pair.slots.push_back(std::make_shared<Slot>(
        work->sequence, std::vector<int32_t>{sender, receiver}));
    ++open_messages_;
  }
  Slot& slot = *pair.slots[work->sequence - pair.first];
  slot.Place(end, work);
  return slot;
}

void Group::ProducerEnded(Work& work) {
  --work.unready;
  if (work.unready == 0 && !work.ended) Advance();
}

void Group::Advance() {
  while (!broken() && !slots_.empty()) {
    const std::shared_ptr<Slot> front = slots_.front();
    if (front->state != Slot::State::kGathering) break;
    if (!Agree(*front) || !Arrive(*front)) break;
    Start(front);
  }
  if (!broken() && open_messages_ > 0) AdvanceMessages();
}

void Group::AdvanceMessages() {
  for (auto& [ranks, pair] : pairs_) {
    // By index, because the death of a rank takes slots off the end.
    for (size_t i = 0; i < pair.slots.size(); ++i) {
      const std::shared_ptr<Slot> slot = pair.slots[i];
      if (slot->state != Slot::State::kGathering || !slot->posted()) continue;
      if (Agree(*slot) && Arrive(*slot)) Start(slot);
      if (broken()) return;  // Which has emptied pairs_.
    }
    while (!pair.slots.empty() &&
           pair.slots.front()->state == Slot::State::kEnded) {
      pair.slots.pop_front();
      ++pair.first;
      --open_messages_;
    }
  }
}

bool Group::Agree(Slot& slot) {
  for (const size_t i : std::exchange(slot.unagreed, {})) {
    if (!slot.heard_of(i)) continue;  // Withdrawn or lost.
    for (size_t j = slot.first_agreed; j < slot.works.size(); ++j) {
      if (!slot.agreed[j]) continue;
      const RankCall left{slot.works[std::min(i, j)]->call,
                          slot.ranks[std::min(i, j)]};
      const RankCall right{slot.works[std::max(i, j)]->call,
                           slot.ranks[std::max(i, j)]};
      const Outcome compared = CompareCalls(left, right, slot.sequence, name_);
      if (!compared.ok()) {
        Break(compared);
        return false;
      }
      // To agree with one is to agree with all, but for what each pair of
      // ranks exchanges.
      if (left.call.kind != MUONSHARD_ALL_TO_ALL_V) break;
    }
    slot.agreed[i] = true;
    slot.first_agreed = std::min(slot.first_agreed, i);
  }
  return true;
}

bool Group::Arrive(Slot& slot) {
  DeliverMessages(slot);
  if (broken()) return false;
  // Who has arrived stays so.
  for (size_t& next = slot.arrived_count; next < slot.works.size(); ++next) {
    if (!slot.arrived(next) || slot.works[next]->gate > ended_) return false;
  }
  return true;
}

void Group::Start(const std::shared_ptr<Slot>& slot) {
  uint64_t bytes = 0;
  for (const std::shared_ptr<Work>& work : slot->works) {
    slot->calls.push_back(&work->call);
    bytes += work->call.bytes();
  }
  if (network_ != nullptr) return PassOverNetwork(slot);
  if (PhaseCount(slot->calls[0]->kind) == 0 || bytes == 0) {
    return Finish(*slot);
  }
  slot->state = Slot::State::kRunning;
  const Communicator& first = *slot->works[0]->communicator;
  if (bytes <= first.identity().options.small_bytes) {
    slot->in_flight = 1;
    domain_->Later(
        [self = shared_from_this(), slot] { self->RunWhole(*slot); });
    return;
  }
  running_.push_back(slot);
  OpenPhase(*slot);
}

void Group::RunWhole(Slot& slot) {
  const auto shares =
      static_cast<int32_t>(slot.calls[0]->pairwise() ? 1 : slot.calls.size());
  for (int32_t phase = 0; phase < PhaseCount(slot.calls[0]->kind); ++phase) {
    for (int32_t share = 0; share < shares; ++share) {
      RunShare(slot.calls, phase, share, stop_);
    }
  }
  HostLock lock(domain_->mutex());
  slot.in_flight = 0;
  if (broken()) return EndWorks(slot);
  Finish(slot);
  Advance();
}

void Group::PassOverNetwork(const std::shared_ptr<Slot>& slot) {
  std::vector<int32_t> program_ranks;
  for (const std::shared_ptr<Work>& work : slot->works) {
    program_ranks.push_back(work->communicator->identity().program_rank);
  }
  slot->state = Slot::State::kRunning;
  // The works of the slot hold this group.
  const auto ended = [this, slot](const Outcome& outcome) {
    if (!outcome.ok()) return Break(outcome);
    Finish(*slot);
    Advance();
  };
  if (!network_->Start(program_ranks, slot->calls, this, ended)) Finish(*slot);
}

void Group::OpenPhase(Slot& slot) {
  const size_t shares = slot.calls[0]->pairwise() ? 1 : slot.calls.size();
  slot.claimed.assign(shares, false);
  slot.unclaimed = slot.unfinished = static_cast<int32_t>(shares);
  bool waiters = false;
  for (Communicator* member : members_) {
    if (member == nullptr || !member->has_waiters()) continue;
    member->condition().NotifyAll();
    waiters = true;
  }
  // Tasks that wait run the shares of all ranks. Where nobody waits, the ranks
  // compute, and their services run the shares beside them.
  if (waiters) return;
  for (const std::shared_ptr<Work>& work : slot.works) {
    work->communicator->CallService();
  }
}

bool Group::HasUnclaimedShares() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const auto& slot) { return slot->unclaimed > 0; });
}

bool Group::RunOneShare(HostLock& lock, int32_t rank) {
  const auto found =
      std::find_if(running_.begin(), running_.end(),
                   [](const auto& slot) { return slot->unclaimed > 0; });
  if (found == running_.end()) return false;
  const std::shared_ptr<Slot> slot = *found;
  auto share = slot->claimed.begin();
  if (!slot->calls[0]->pairwise()) share += rank;
  if (*share)
    share = std::find(slot->claimed.begin(), slot->claimed.end(), false);
  *share = true;
  --slot->unclaimed;
  ++slot->in_flight;
  const auto index = static_cast<int32_t>(share - slot->claimed.begin());
  lock.Unlock();
  RunShare(slot->calls, slot->phase, index, stop_);
  lock.Lock();
  --slot->in_flight;
  ShareEnded(slot);
  return true;
}

void Group::ShareEnded(const std::shared_ptr<Slot>& slot) {
  if (broken()) {
    if (slot->in_flight == 0) EndWorks(*slot);
    return;
  }
  if (--slot->unfinished > 0) return;
  if (++slot->phase < PhaseCount(slot->calls[0]->kind)) return OpenPhase(*slot);
  std::erase(running_, slot);
  Finish(*slot);
  Advance();
}

void Group::Finish(Slot& slot) {
  CheckInputs(slot);
  if (broken()) return;  // Which has ended the works.
  EndWorks(slot);
  if (!slot.calls[0]->pairwise()) {  // AdvanceMessages takes these away.
    slots_.pop_front();
    ++ended_;
  }
  for (const std::shared_ptr<Work>& work : slot.works) {
    if (!work->fate.dies_after) continue;
    Kill(work->communicator->laboratory(), PlaceOf(*work));
  }
}

void Group::EndWorks(Slot& slot) {
  slot.state = Slot::State::kEnded;
  for (const std::shared_ptr<Work>& work : slot.works) {
    if (work != nullptr) EndWork(*work);
  }
}

void Group::EndWork(Work& work) {
  work.ended = true;
  work.outcome = work.communicator->failure();
  if (work.outcome.ok()) work.outcome.sequence = work.sequence;
  work.communicator->WorkEnded(work);
  if (broken() && work.fate.dies_after) {
    domain_->Later([ended = work.shared_from_this()] {
      HostLock lock(ended->communicator->domain()->mutex());
      Kill(ended->communicator->laboratory(), PlaceOf(*ended));
    });
  }
  if (work.callbacks.empty()) return;
  domain_->Later([ended = work.shared_from_this()] {
    muonshard_status status;
    Report(ended->outcome, &status);
    for (const Work::Callback& callback : ended->callbacks) {
      callback.function(callback.argument, &status);
    }
    ended->callbacks.clear();
  });
}

}  // namespace muonshard::loopback
