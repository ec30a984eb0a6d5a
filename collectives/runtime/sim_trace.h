// What a scheduler chose in one run, kept small: only where it differs from
// `DefaultChoice`. A run is repeated from its trace, and a trace that lacks
// some of its deviations is the trace of another run, which is what makes the
// search for a shorter one possible.
//
// Threads      As sim_scheduler.h.

#ifndef COLLECTIVES_RUNTIME_SIM_TRACE_H_
#define COLLECTIVES_RUNTIME_SIM_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/runtime/sim_scheduler.h"

namespace muonshard {

// At the choice with this number, from 0, that a scheduler was asked for, the
// task was chosen and not the default one.
struct SimDeviation {
  uint64_t choice = 0;
  uint64_t task = 0;

  bool operator==(const SimDeviation&) const = default;
};

// Ascending by choice.
using SimTrace = std::vector<SimDeviation>;

// Chooses as `inner`, which outlives it, and writes down what.
class SimTraceRecorder final : public SimScheduler {
 public:
  explicit SimTraceRecorder(SimScheduler& inner) : inner_(inner) {}

  size_t Choose(const SimChoice& choice) override;

  const SimTrace& trace() const { return trace_; }
  // How many choices it was asked for.
  uint64_t choice_count() const { return choice_count_; }

 private:
  SimScheduler& inner_;
  SimTrace trace_;
  uint64_t choice_count_ = 0;
};

// Chooses as a trace says.
class SimTraceReplay final : public SimScheduler {
 public:
  explicit SimTraceReplay(SimTrace trace) : trace_(std::move(trace)) {}

  // The default where the trace has no deviation, or one to a task that is not
  // a candidate.
  size_t Choose(const SimChoice& choice) override;

  // Deviations that were followed. All, where the program is the one that the
  // trace was recorded of.
  size_t followed_count() const { return followed_count_; }

 private:
  const SimTrace trace_;
  size_t next_ = 0;
  uint64_t choice_count_ = 0;
  size_t followed_count_ = 0;
};

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_SIM_TRACE_H_
