// Who is behind a rank that is missing: it may be held up itself, in another
// group, by a rank that is, and so on to one that nobody holds up. Where all
// hold up each other, it is those of one such circle. Only the path of an error
// comes here.

#include <algorithm>
#include <optional>

#include "plugins/loopback/group.h"

namespace muonshard::loopback {

std::vector<int32_t> Group::LackedBy(int32_t rank) const {
  if (!complete()) return Absent();
  std::vector<int32_t> lacked;
  const auto add = [&](const Slot& slot, size_t own) {
    // Before it has arrived it waits for its producers, not for its peers.
    if (slot.state != Slot::State::kGathering || !slot.arrived(own)) return;
    for (size_t index = 0; index < slot.ranks.size(); ++index) {
      if (!slot.arrived(index)) lacked.push_back(slot.ranks[index]);
    }
  };
  // What is behind the front operation lacks what that one does.
  bool waits = std::any_of(slots_.begin(), slots_.end(), [&](const auto& slot) {
    return slot->works[Index(rank)] != nullptr;
  });
  for (const auto& [ranks, pair] : pairs_) {
    if (ranks.first != rank && ranks.second != rank) continue;
    const size_t end = ranks.first == rank ? 0 : 1;
    for (const std::shared_ptr<Slot>& slot : pair.slots) {
      if (slot->works[end] == nullptr) continue;
      add(*slot, end);
      waits = waits || slot->works[end]->gate > ended_;
    }
  }
  if (waits && !slots_.empty()) add(*slots_.front(), Index(rank));
  for (const auto& [number, split] : splits_) {
    if (split.made || !split.requests[Index(rank)].came) continue;
    for (int32_t other = 0; other < size_; ++other) {
      if (!split.requests[Index(other)].came) lacked.push_back(other);
    }
  }
  return lacked;
}

std::set<int32_t> Group::CulpritsOf(const std::vector<int32_t>& ranks) const {
  // A rank of a program. Each is looked at once, however many lack it, and is a
  // culprit only if nothing holds it up.
  using Living = std::pair<const Laboratory*, int32_t>;
  std::map<Living, std::optional<Living>> lacks;  // One that each one lacks.
  std::vector<Living> open;
  std::set<int32_t> culprits;
  const auto look_at = [&](const Group& group,
                           int32_t rank) -> std::optional<Living> {
    const Communicator* const member = group.member(rank);
    if (member == nullptr || member->dead()) {
      culprits.insert(group.ProgramRank(rank));
      return std::nullopt;
    }
    const Living living(&member->laboratory(), member->identity().program_rank);
    if (lacks.try_emplace(living).second) open.push_back(living);
    return living;
  };
  for (const int32_t rank : ranks) look_at(*this, rank);
  while (!open.empty()) {
    const Living living = open.back();
    open.pop_back();
    bool held_up = false;
    for (const Communicator* at :
         living.first->CommunicatorsOf(living.second)) {
      const Group& group = *at->group();
      culprits.insert(group.culprits_.begin(), group.culprits_.end());
      held_up = held_up || !group.culprits_.empty();
      if (group.broken()) continue;
      for (const int32_t lacked : group.LackedBy(at->rank())) {
        const std::optional<Living> next = look_at(group, lacked);
        if (next.has_value()) lacks[living] = next;
        held_up = true;
      }
    }
    if (!held_up) culprits.insert(living.second);
  }
  if (!culprits.empty() || lacks.empty()) return culprits;
  // Each one lacks another that lives, so a walk comes round to where it was.
  Living here = lacks.begin()->first;
  for (std::set<Living> walk; walk.insert(here).second;) here = *lacks[here];
  for (; culprits.insert(here.second).second;) here = *lacks[here];
  return culprits;
}

std::string Group::Behind(const std::vector<int32_t>& ranks) const {
  std::set<int32_t> named;
  for (const int32_t rank : ranks) named.insert(ProgramRank(rank));
  const std::set<int32_t> culprits = CulpritsOf(ranks);
  if (culprits == named) return "";
  return "; held up by " + RankList({culprits.begin(), culprits.end()}) +
         " of the world";
}

}  // namespace muonshard::loopback
