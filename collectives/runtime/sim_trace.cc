#include "collectives/runtime/sim_trace.h"

#include <algorithm>

namespace muonshard {

size_t SimTraceRecorder::Choose(const SimChoice& choice) {
  const size_t chosen = inner_.Choose(choice);
  if (chosen != DefaultChoice(choice)) {
    trace_.push_back(
        {.choice = choice_count_, .task = choice.candidates[chosen]});
  }
  ++choice_count_;
  return chosen;
}

size_t SimTraceReplay::Choose(const SimChoice& choice) {
  const uint64_t number = choice_count_++;
  if (next_ == trace_.size() || trace_[next_].choice != number) {
    return DefaultChoice(choice);
  }
  const uint64_t task = trace_[next_++].task;
  const auto found =
      std::find(choice.candidates.begin(), choice.candidates.end(), task);
  if (found == choice.candidates.end()) return DefaultChoice(choice);
  ++followed_count_;
  return static_cast<size_t>(found - choice.candidates.begin());
}

}  // namespace muonshard
