// How a group is entered, left and broken, and what is said about it.

#include <algorithm>
#include <utility>

#include "plugins/loopback/group.h"
#include "plugins/loopback/model/network_clock.h"

namespace muonshard::loopback {

Outcome Group::Enter(Communicator* communicator) {
  const size_t rank = Index(communicator->rank());
  if (members_[rank] != nullptr) {
    return {.code = MUONSHARD_E_MISMATCH,
            .text = "two ranks " + std::to_string(rank) + " came to group " +
                    Quoted(name_),
            .rank = communicator->rank()};
  }
  if (entered_ == 0) network_ = communicator->identity().network;
  if (network_ != communicator->identity().network) {
    return {.code = MUONSHARD_E_MISMATCH,
            .text = "rank " + std::to_string(rank) + " came to group " +
                    Quoted(name_) + " with another network than its peers",
            .rank = communicator->rank()};
  }
  domain_->AddPoster(communicator->identity().program,
                     communicator->shared_from_this());
  members_[rank] = communicator;
  const int32_t program_rank = communicator->identity().program_rank;
  program_ranks_[rank] = program_rank;
  communicator->laboratory().Enter(program_rank, communicator);
  ++entered_;
  return {};
}

std::vector<int32_t> Group::Absent() const {
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < size_; ++rank) {
    if (members_[Index(rank)] == nullptr) ranks.push_back(rank);
  }
  return ranks;
}

void Group::Leave(int32_t rank, bool unfinished) {
  Communicator* const gone = std::exchange(members_[Index(rank)], nullptr);
  gone->laboratory().Leave(program_ranks_[Index(rank)], gone);
  if (gone->dead()) return;  // Peers go on lacking it.
  left_[Index(rank)] = true;
  somebody_left_ = true;
  // A peer needs this rank if an operation or a split has begun that lacks it.
  bool needed = unfinished || !slots_.empty();
  for (const auto& [ranks, pair] : pairs_) {
    const bool member = ranks.first == rank || ranks.second == rank;
    needed = needed || (member && !pair.slots.empty());
  }
  for (const auto& [number, split] : splits_) {
    needed = needed || split.open();
  }
  if (needed) Break(RankLeft(rank, "before all that was begun had ended"));
}

Outcome Group::RankLeft(int32_t rank, const std::string& consequence) const {
  return {.code = MUONSHARD_E_ABORTED,
          .text = Names({rank}) + " left the group " + Quoted(name_) + " " +
                  consequence,
          .rank = rank};
}

void Group::MemberDied(int32_t rank) {
  const size_t own = Index(rank);
  for (const std::shared_ptr<Slot>& slot : slots_) {
    if (slot->state != Slot::State::kGathering) continue;
    posted_[own] = std::min(posted_[own], slot->sequence);
    Withdraw(*slot, own);
  }
  while (!slots_.empty() && slots_.back()->empty()) slots_.pop_back();
  for (auto& [ranks, pair] : pairs_) {
    if (ranks.first != rank && ranks.second != rank) continue;
    for (const std::shared_ptr<Slot>& slot : pair.slots) {
      if (slot->state != Slot::State::kGathering) continue;
      Withdraw(*slot, ranks.first == rank ? 0 : 1);
    }
    while (!pair.slots.empty() && pair.slots.back()->empty()) {
      pair.slots.pop_back();
      --open_messages_;
    }
  }
  for (auto& [number, split] : splits_) {
    if (split.made || !split.requests[own].came) continue;
    split.requests[own].came = false;
    --split.came;
  }
  members_[own]->condition().NotifyAll();
}

void Group::Withdraw(Slot& slot, size_t index) {
  const std::shared_ptr<Work> work = std::exchange(slot.works[index], nullptr);
  slot.agreed[index] = false;
  slot.arrived_count = 0;
  if (work != nullptr) EndWork(*work);
}

std::string Group::Names(const std::vector<int32_t>& ranks) const {
  std::vector<int32_t> program_ranks;
  for (const int32_t rank : ranks) program_ranks.push_back(ProgramRank(rank));
  const std::string names = RankList(ranks);
  if (program_ranks == ranks) return names;
  return names + " (" + RankList(program_ranks) + " of the world)";
}

Outcome Group::NotCome(const std::string& what,
                       const std::vector<int32_t>& missing) const {
  const int32_t came = size_ - static_cast<int32_t>(missing.size());
  return {.code = MUONSHARD_E_TIMEOUT,
          .text = what + " of group " + Quoted(name_) + ": " +
                  std::to_string(came) + " of " + std::to_string(size_) +
                  " ranks came; missing " + Names(missing) + Behind(missing),
          .rank = missing.empty() ? -1 : missing[0]};
}

Outcome Group::CheckNobodyLeft() const {
  const auto left = std::find(left_.begin(), left_.end(), true);
  if (left == left_.end()) return {};
  return RankLeft(static_cast<int32_t>(left - left_.begin()), "before this");
}

void Group::Break(const Outcome& outcome, const std::set<int32_t>& culprits) {
  if (broken()) return;
  failure_ = outcome;
  culprits_ = culprits;
  stop_ = true;
  // Where shares are in flight, the last of them to end ends the works.
  const auto end = [this](const std::shared_ptr<Slot>& slot) {
    if (slot->in_flight == 0 && slot->state != Slot::State::kEnded) {
      EndWorks(*slot);
    }
  };
  std::for_each(slots_.begin(), slots_.end(), end);
  for (const auto& [ranks, pair] : pairs_) {
    std::for_each(pair.slots.begin(), pair.slots.end(), end);
  }
  slots_.clear();
  pairs_.clear();
  open_messages_ = 0;
  running_.clear();
  if (network_ != nullptr) network_->Cancel(this);
  NotifyMembers();
}

const Slot* Group::SlotOf(const Work& work) const {
  if (!work.call.pairwise()) return slots_[work.sequence - ended_].get();
  const int32_t rank = work.communicator->rank();
  const bool sends = work.call.kind == MUONSHARD_SEND;
  const Messages& pair = pairs_.at(sends ? std::pair(rank, work.call.peer)
                                         : std::pair(work.call.peer, rank));
  return pair.slots[work.sequence - pair.first].get();
}

std::string Group::DescribeSlot(const Slot& slot) const {
  for (const std::shared_ptr<Work>& work : slot.works) {
    if (work != nullptr) return Describe(work->call, slot.sequence, name_);
  }
  return "operation " + std::to_string(slot.sequence);
}

void Group::BreakAtDeadline(const Work& work) {
  // An operation behind another waits for the ranks that the first one lacks.
  const Slot* slot = SlotOf(work);
  std::string text = DescribeSlot(*slot) + ": deadline passed";
  const uint64_t before = work.call.pairwise() ? work.gate : work.sequence;
  if (before > ended_) {
    slot = slots_.front().get();
    text += " behind operation " + std::to_string(slot->sequence);
  }
  std::vector<int32_t> missing;
  std::vector<int32_t> unready;
  for (size_t index = 0; index < slot->ranks.size(); ++index) {
    if (slot->arrived(index)) continue;
    (slot->heard_of(index) ? unready : missing).push_back(slot->ranks[index]);
  }
  const size_t arrived = slot->ranks.size() - missing.size() - unready.size();
  text += "; " + std::to_string(arrived) + " of " +
          std::to_string(slot->ranks.size()) + " ranks arrived";
  if (!missing.empty()) text += "; missing " + Names(missing);
  if (!unready.empty()) {
    text += "; the producers have not ended on " + Names(unready);
  }
  std::vector<int32_t> lacked = missing;
  lacked.insert(lacked.end(), unready.begin(), unready.end());
  Outcome outcome{.code = MUONSHARD_E_TIMEOUT,
                  .text = text + Behind(lacked),
                  .sequence = work.sequence};
  if (!lacked.empty()) outcome.rank = lacked[0];
  Break(outcome, CulpritsOf(lacked));
}

bool Group::MayLack(int32_t rank) const {
  if (broken()) return false;
  return open_messages_ > 0 || posted_[Index(rank)] < ended_ + slots_.size();
}

std::vector<int32_t> Group::Lacking(const Work& work) const {
  if (work.ended || broken()) return {};
  // Every operation of all ranks up to this one must have been posted.
  uint64_t wanted = work.sequence + 1;
  std::vector<int32_t> ranks;
  if (work.call.pairwise()) {
    wanted = 0;
    const Slot& slot = *SlotOf(work);
    for (size_t index = 0; index < slot.ranks.size(); ++index) {
      if (slot.works[index] == nullptr) {
        ranks.push_back(slot.ranks[index]);
      } else {
        wanted = std::max(wanted, slot.works[index]->gate);
      }
    }
  }
  for (int32_t rank = 0; rank < size_; ++rank) {
    if (posted_[Index(rank)] < wanted) ranks.push_back(rank);
  }
  return ranks;
}

Split& Group::SplitOf(uint64_t number) {
  Split& split = splits_[number];
  split.requests.resize(Index(size_));
  return split;
}

}  // namespace muonshard::loopback
