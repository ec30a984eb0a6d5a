#include "plugins/loopback/laboratory.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace muonshard::loopback {
namespace {

void Apply(const Fault& fault, Fate* fate) {
  switch (fault.kind) {
    case Fault::Kind::kDieBefore:
      fate->dies_before = true;
      break;
    case Fault::Kind::kDieAfter:
      fate->dies_after = true;
      break;
    case Fault::Kind::kLate:
      fate->late_ns = fault.late_ns;
      break;
    case Fault::Kind::kLose:
      fate->message = Fate::Message::kLost;
      break;
    case Fault::Kind::kShort:
      fate->message = Fate::Message::kShort;
      break;
    case Fault::Kind::kCorrupt:
      fate->message = Fate::Message::kCorrupt;
      break;
    case Fault::Kind::kDuplicate:
      fate->message = Fate::Message::kTwice;
      break;
    case Fault::Kind::kMemory:
      fate->no_memory = true;
      break;
    case Fault::Kind::kAbort:
      fate->aborts = true;
      break;
  }
}

std::string Line(const std::string& name, const std::string& value) {
  return name + ": " + value + "\n";
}

}  // namespace

Laboratory::Laboratory(std::vector<Fault> plan, bool checks)
    : plan_(std::move(plan)),
      checks_(checks),
      makes_messages_(checks || std::any_of(plan_.begin(), plan_.end(),
                                            [](const Fault& fault) {
                                              return fault.concerns_message();
                                            })) {}

Outcome Laboratory::CheckRanks(int32_t size) const {
  for (const Fault& fault : plan_) {
    if (fault.rank < size) continue;
    return {.code = MUONSHARD_E_ARGUMENT,
            .text = "fault " + Quoted(fault.text) + ": want a rank in [0, " +
                    std::to_string(size) + "), got " +
                    std::to_string(fault.rank)};
  }
  return {};
}

Fate Laboratory::NextOperation(int32_t rank) {
  Fate fate = {.operation = operations_[rank]++};
  for (size_t i = 0; i < plan_.size(); ++i) {
    if (plan_[i].rank != rank || plan_[i].operation != fate.operation) continue;
    reached_.insert(i);
    Apply(plan_[i], &fate);
  }
  return fate;
}

void Laboratory::Die(int32_t rank, const Outcome& cause) {
  deaths_.emplace(rank, cause);
}

const Outcome* Laboratory::DeathOf(int32_t rank) const {
  if (deaths_.empty()) return nullptr;
  const auto found = deaths_.find(rank);
  return found == deaths_.end() ? nullptr : &found->second;
}

void Laboratory::Enter(int32_t rank, Communicator* communicator) {
  communicators_.emplace(rank, communicator);
}

void Laboratory::Leave(int32_t rank, Communicator* communicator) {
  const auto [begin, end] = communicators_.equal_range(rank);
  const auto found = std::find_if(
      begin, end, [&](const auto& e) { return e.second == communicator; });
  if (found != end) communicators_.erase(found);
}

std::vector<Communicator*> Laboratory::CommunicatorsOf(int32_t rank) const {
  std::vector<Communicator*> communicators;
  const auto [begin, end] = communicators_.equal_range(rank);
  for (auto entry = begin; entry != end; ++entry) {
    communicators.push_back(entry->second);
  }
  return communicators;
}

std::string Laboratory::Report() const {
  std::string text;
  for (const auto& [rank, count] : operations_) {
    text += Line("operations of rank " + std::to_string(rank),
                 std::to_string(count));
  }
  for (size_t i = 0; i < plan_.size(); ++i) {
    text += Line("fault " + Quoted(plan_[i].text),
                 reached_.contains(i) ? "reached" : "not reached");
  }
  text += Line("live works", std::to_string(live_works_));
  text += Line("live communicators", std::to_string(live_communicators_));
  return text + Line("duplicates dropped", std::to_string(duplicates_dropped_));
}

}  // namespace muonshard::loopback
