// Takes in gradients, and reduces each bucket as soon as it is full.
//
// Life of a bucket in one step: check-ins fill it; when it is full and every
// earlier bucket has been launched, it is reduced over its group and then over
// its replicas; behind that, on the compute stream, the own segment's squares
// are summed. `Finish` launches what is left, full or not. A bucket with a
// kSyncOnly parameter is full then and not before; one whose parameters do not
// live on this rank is passed over.
//
// In this file
//   launch order  the order of Plan::buckets, on every rank, whatever the order
//                 of check-ins
//
// Ordering     `Begin` comes after the last step's updates and gathers have
//              ended: they read the buffers that are filled now, and release
//              those that `Begin` makes anew.
// Threads      `GradientReady` and `View` from any task, at once for different
//              parameters; the rest from the program.
// Numerics     f32 is summed unscaled and scaled by 1/divisor once, by the last
//              level. Of f16 and bf16 the first of two levels gives the mean of
//              its ranks, which is no larger than the largest of them, and the
//              last takes the rest of the divisor. That is 1/(its ranks) over
//              replicate axes, and 1 over partial ones, whose parts are summed
//              and not averaged. So nothing overflows where the result does
//              not.
// Errors       A failed launch or reduction fails the step, see `summary`.

#ifndef OPTIMIZER_REDUCER_H_
#define OPTIMIZER_REDUCER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/stream.h"
#include "collectives/work.h"
#include "optimizer/bucket_buffers.h"
#include "optimizer/check_in.h"
#include "optimizer/compute/exact_sum.h"
#include "optimizer/group_set.h"
#include "optimizer/options.h"
#include "optimizer/span_recorder.h"

namespace muonshard {

// What the own segments of a step add up to. Written by operations of the
// compute stream; read behind them.
struct ReductionSummary {
  ExactSum squared_norm;
  int64_t non_finite_count = 0;
  // Of segments that do not count in the norm.
  int64_t uncounted_non_finite_count = 0;
  absl::Status failure;       // The first bucket's that failed.
  int32_t failed_bucket = 0;  // Which that is.
};

class Reducer {
 public:
  // All arguments outlive the reducer.
  Reducer(Runtime& runtime, const OptimizerOptions& options,
          BucketBuffers& buffers, const GroupSet& groups, Stream& compute,
          SpanRecorder& spans);

  void Begin(int64_t step, int32_t micro_batches);
  void* View(int32_t parameter);  // See ShardedOptimizer::GradientView.
  absl::Status GradientReady(int32_t parameter, const void* data, int64_t count,
                             DataType dtype);

  // Ends the check-ins and launches what is left.
  absl::Status Finish();

  // Of the finished step: by parameter, whether this rank had no gradient; and
  // what is wrong with its check-ins.
  const std::vector<bool>& absent() const { return absent_; }
  const std::optional<StepFailure>& failure() const {
    return ledger_.failure();
  }
  const ReductionSummary& summary() const { return summary_; }

  // All levels of the buckets' reductions, as far as they are launched.
  std::vector<Work> works() const;

  int64_t view_misses() const;

 private:
  struct BucketState {
    int32_t missing = 0;  // Parameters that have not checked in for the last
                          // time.
    std::vector<Work> levels;  // Of its reduction, as far as launched.
  };

  void Fill(int32_t parameter, const void* data, DataType dtype, bool first);
  void Clear(int32_t parameter);
  // The next five hold mutex_.
  void* LockedView(int32_t parameter);
  void LaunchFull();
  absl::Status Launch(int32_t bucket);
  void EnqueueSummary(int32_t bucket, const absl::Status& launched);
  void Summarize(int32_t bucket);

  Runtime& runtime_;
  const OptimizerOptions& options_;
  BucketBuffers& buffers_;
  const Plan& plan_;
  const GroupSet& groups_;
  Stream& compute_;
  SpanRecorder& spans_;
  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> filled_;
  // Guarded by mutex_ from here on, but for summary_.
  CheckInLedger ledger_;
  std::vector<BucketState> buckets_;
  int64_t step_ = 0;
  size_t next_launch_ = 0;  // In launch order.
  bool open_ = false;       // Between Begin and Finish.
  int32_t filling_ = 0;     // Check-ins that were counted and are under way.
  std::vector<bool> absent_;
  int64_t view_misses_ = 0;
  ReductionSummary summary_;
};

}  // namespace muonshard

#endif  // OPTIMIZER_REDUCER_H_
