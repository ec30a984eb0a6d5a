// One operation of a group: the works of its ranks, and how far it is.
//
// Guarded by the domain's mutex; while shares are in flight, `calls` and
// `phase` stay as they are.

#ifndef PLUGINS_LOOPBACK_SLOT_H_
#define PLUGINS_LOOPBACK_SLOT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "plugins/loopback/call.h"
#include "plugins/loopback/work.h"

namespace muonshard::loopback {

struct Slot {
  enum class State {
    kGathering,  // Not all ranks have arrived.
    kRunning,    // Data is being moved.
    kEnded,
  };

  Slot(uint64_t number, std::vector<int32_t> members)
      : sequence(number),
        ranks(std::move(members)),
        works(ranks.size()),
        agreed(ranks.size()) {}

  bool posted() const {
    return std::all_of(works.begin(), works.end(),
                       [](const auto& work) { return work != nullptr; });
  }
  void Place(size_t index, const std::shared_ptr<Work>& work) {
    works[index] = work;
    unagreed.push_back(index);
    // A rank alone sends no message that could be lost.
    work->lost = work->fate.message == Fate::Message::kLost && works.size() > 1;
    if (!work->delivered) undelivered.push_back(index);
  }
  // Whether no rank has posted, or those that had are dead.
  bool empty() const {
    return std::all_of(works.begin(), works.end(),
                       [](const auto& work) { return work == nullptr; });
  }
  // Whether peers have heard, or will hear, of what the rank has posted.
  bool heard_of(size_t index) const {
    return works[index] != nullptr && !works[index]->lost;
  }
  // Of a rank that has posted and whose producers have ended.
  bool arrived(size_t index) const {
    return heard_of(index) && works[index]->unready == 0;
  }

  const uint64_t sequence;
  const std::vector<int32_t> ranks;  // All, or a sender and its receiver.
  std::vector<std::shared_ptr<Work>>
      works;                 // By index in ranks; null: to come.
  std::vector<bool> agreed;  // Whose calls were compared.
  size_t first_agreed = SIZE_MAX;
  std::vector<size_t> unagreed;     // Who has posted since.
  std::vector<size_t> undelivered;  // Whose message has not come.
  size_t arrived_count = 0;         // The first so many have arrived.

  State state = State::kGathering;
  std::vector<const Call*> calls;  // Of `works`, once running.
  int32_t phase = 0;
  std::vector<bool> claimed;  // By share of this phase.
  int32_t unclaimed = 0;
  int32_t unfinished = 0;
  // Shares that some task runs now. The buffers are in use meanwhile.
  int32_t in_flight = 0;
};

// The messages from a sender to a receiver.
struct Messages {
  std::deque<std::shared_ptr<Slot>> slots;
  uint64_t first = 0;           // Sequence of the front slot.
  uint64_t posted[2] = {0, 0};  // By the sender, by the receiver.
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_SLOT_H_
