// Who is behind a rank that is missing: it may be held up itself, in another
// group, by a rank that is, and so on to one that nobody holds up. Only the
// path of an error comes here.

#include <algorithm>
#include <iterator>

#include "plugins/loopback/group.h"

namespace muonshard::loopback {

std::vector<int32_t> Group::LackedBy(int32_t rank) const {
  if (!complete()) return Absent();
  std::vector<int32_t> lacked;
  const auto add = [&](const Slot& slot) {
    if (slot.state != Slot::State::kGathering) return;
    for (size_t index = 0; index < slot.ranks.size(); ++index) {
      if (slot.ranks[index] == rank || slot.arrived(index)) continue;
      lacked.push_back(slot.ranks[index]);
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
      add(*slot);
      waits = waits || slot->works[end]->gate > ended_;
    }
  }
  if (waits && !slots_.empty()) add(*slots_.front());
  for (const auto& [number, split] : splits_) {
    if (split.made || !split.requests[Index(rank)].came) continue;
    for (int32_t other = 0; other < size_; ++other) {
      if (!split.requests[Index(other)].came) lacked.push_back(other);
    }
  }
  return lacked;
}

void Group::AddCulprits(int32_t rank, std::set<const Communicator*>* visited,
                        std::set<int32_t>* culprits) const {
  const Communicator* const member = members_[Index(rank)];
  std::set<int32_t> found;
  if (member != nullptr && !member->dead()) {
    if (!visited->insert(member).second) return;
    const int32_t program_rank = member->identity().program_rank;
    for (const Communicator* held_up :
         member->laboratory().CommunicatorsOf(program_rank)) {
      const Group& group = *held_up->group();
      found.insert(group.culprits_.begin(), group.culprits_.end());
      if (group.broken()) continue;
      for (const int32_t lacked : group.LackedBy(held_up->rank())) {
        group.AddCulprits(lacked, visited, &found);
      }
    }
  }
  if (found.empty()) found.insert(ProgramRank(rank));
  culprits->insert(found.begin(), found.end());
}

std::set<int32_t> Group::CulpritsOf(const std::vector<int32_t>& ranks) const {
  std::set<const Communicator*> visited;
  std::set<int32_t> culprits;
  for (const int32_t rank : ranks) AddCulprits(rank, &visited, &culprits);
  return culprits;
}

std::string Group::Behind(const std::vector<int32_t>& ranks) const {
  std::set<int32_t> named;
  for (const int32_t rank : ranks) named.insert(ProgramRank(rank));
  const std::set<int32_t> culprits = CulpritsOf(ranks);
  std::vector<int32_t> others;
  std::set_difference(culprits.begin(), culprits.end(), named.begin(),
                      named.end(), std::back_inserter(others));
  if (others.empty()) return "";
  return "; held up by " + RankList(others) + " of the world";
}

}  // namespace muonshard::loopback
