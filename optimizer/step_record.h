// One step in flight, kept alive by whoever waits for it, and behind it what a
// rank needs to take the step's decision from others.
//
// Threads    Works and `decided` do not change once Updater::Step has returned;
//            the compute stream writes the rest before `decided` happens, and
//            Updater::TakeDecision when the stream is idle.

#ifndef OPTIMIZER_STEP_RECORD_H_
#define OPTIMIZER_STEP_RECORD_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "collectives/runtime/event.h"
#include "collectives/work.h"
#include "optimizer/control_vector.h"

namespace muonshard {

struct StepRecord {
  // Whether this rank decided the step, and not because a group was broken that
  // a new one replaces.
  bool counts() const { return !control_failed && !decision.reduction_failed; }

  ControlInput control;
  // The control vectors: of this rank, then of all.
  std::vector<int64_t> sums;
  std::vector<int64_t> least;
  absl::Status options_status;  // Of this rank's own options.
  absl::Status failure;         // This rank's own, of a reduction.
  bool control_failed = false;
  // Whether parameters are to be compared. False once they were found equal.
  bool equality_due = false;
  StepDecision decision;
  std::vector<Work> reductions;
  std::array<Work, 2> control_works;
  Event decided;
};

}  // namespace muonshard

#endif  // OPTIMIZER_STEP_RECORD_H_
