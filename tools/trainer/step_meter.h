// Collects what the ranks of a run did when, and how their loss went.
//
// Ordering     Steps count from 1. A step is complete when every rank has ended
//              it; parts of its update may be measured until the next step has
//              ended, or `Synchronize` of every rank returned.
// Threads      All methods from any task.
// Memory       One row per step; each span only when `keep_spans` is set.

#ifndef TOOLS_TRAINER_STEP_METER_H_
#define TOOLS_TRAINER_STEP_METER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "optimizer/step_trace.h"

namespace muonshard {

// What a rank's program did between two instants.
enum class ProgramPhase : uint8_t { kForward, kBackward, kFinish };

struct ProgramSpan {
  ProgramPhase phase = ProgramPhase::kForward;
  int32_t rank = 0;
  int64_t step = 0;
  int32_t micro_batch = 0;
  absl::Time begin;
  absl::Time end;
};

struct RankSpan {
  int32_t rank = 0;
  StepSpan span;
};

// Of one step.
struct StepRow {
  int32_t ranks_done = 0;
  std::vector<double> losses;  // By rank.
  // Sums over ranks.
  absl::Duration duration;
  absl::Duration newton_schulz;
  absl::Duration exposed_communication;
};

// One rank's part of a row.
struct StepShare {
  double loss = 0;
  absl::Duration duration;
  absl::Duration newton_schulz;
  absl::Duration exposed_communication;
};

// Of one step, over the ranks.
struct StepMeans {
  double loss = 0;
  double step_ms = 0;
  double newton_schulz_ms = 0;
  double exposed_communication_ms = 0;
};

class StepMeter {
 public:
  StepMeter(Runtime& runtime, int32_t ranks, int64_t steps, bool keep_spans);

  StepTraceSink SinkOf(int32_t rank);
  void AddProgramSpan(const ProgramSpan& span);

  // Rank `rank` has ended `step`; `loss` is the mean over its own batch.
  // Returns true to the last rank that ends the step.
  bool EndStep(int32_t rank, int64_t step, double loss,
               absl::Duration duration);

  // For ranks in processes of their own, each with a meter: what was measured
  // of `step`, by `rank` alone so far, and what another rank measured.
  StepShare ShareOf(int32_t rank, int64_t step) const;
  void AddShare(int32_t rank, int64_t step, const StepShare& share);

  int32_t ranks() const { return ranks_; }
  // Row i is of step i + 1.
  std::vector<StepMeans> Means() const;
  // Of one step; cheaper.
  StepMeans MeansOf(int64_t step) const;

  std::vector<ProgramSpan> program_spans() const;
  std::vector<RankSpan> rank_spans() const;

 private:
  void Add(int32_t rank, const StepSpan& span);
  StepMeans MeansOf(const StepRow& row) const;

  const int32_t ranks_;
  const bool keep_spans_;
  const std::unique_ptr<Mutex> mutex_;
  // Guarded by `mutex_`.
  std::vector<StepRow> rows_;
  std::vector<ProgramSpan> program_spans_;
  std::vector<RankSpan> rank_spans_;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_STEP_METER_H_
