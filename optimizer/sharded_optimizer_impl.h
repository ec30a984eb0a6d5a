// One rank's ShardedOptimizer: its memory, the groups it works in, and how far
// its step is.

#ifndef OPTIMIZER_SHARDED_OPTIMIZER_IMPL_H_
#define OPTIMIZER_SHARDED_OPTIMIZER_IMPL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/runtime/stream.h"
#include "optimizer/group_set.h"
#include "optimizer/optimizer_memory.h"
#include "optimizer/reducer.h"
#include "optimizer/sharded_optimizer.h"
#include "optimizer/span_recorder.h"
#include "optimizer/updater.h"

namespace muonshard {

// Where a step stands, as its program sees it.
enum class Phase : uint8_t {
  kBinding,     // Before the first step.
  kBackward,    // Between BeginStep and Finish.
  kReduced,     // Between Finish and Step.
  kStepped,     // After Step.
  kHandedOver,  // Another optimizer has its memory.
};

class ShardedOptimizerImpl : public ShardedOptimizer {
 public:
  ShardedOptimizerImpl(std::shared_ptr<OptimizerMemory> memory,
                       Collective& world, GroupSet groups, StepTraceSink trace);
  ~ShardedOptimizerImpl() override;

  const Plan& plan() const override { return plan_; }

  absl::Status BindParameter(int32_t p, void* data) override;
  absl::Status RestoreState(int32_t p, const ParameterState& state) override;
  absl::Status RestoreStep(int64_t step) override;
  void* GradientView(int32_t p) override {
    return CheckIndex(p).ok() && LivesHere(p) ? reducer_.View(p) : nullptr;
  }
  absl::Status BeginStep(int32_t micro_batches) override;
  absl::Status GradientReady(int32_t p, const void* data, int64_t count,
                             DataType dtype) override {
    return reducer_.GradientReady(p, data, count, dtype);
  }
  absl::StatusOr<ReducedGradients> Finish() override;
  absl::Status Step(ReducedGradients gradients,
                    const StepOptions& options) override;
  absl::StatusOr<StepOutcome> Outcome() override;
  absl::Status WaitForParameters(int32_t p) override;
  absl::Status WaitForParameters(absl::string_view name) override;
  absl::Status WaitForParameters() override;
  absl::Status Synchronize() override;
  absl::StatusOr<ParameterState> State(int32_t p) override;
  absl::StatusOr<OptimizerStatistics> Statistics() const override;

  // What a new group of the same ranks needs of this one, which has failed; see
  // Resync in the order of these.
  const std::shared_ptr<OptimizerMemory>& memory() const { return memory_; }
  absl::Status CheckCanResync(const Collective& world) const;
  // Ends all that was posted. Ranks that have not seen a failure see one now.
  void EndAll(const absl::Status& reason);
  // Makes all ranks of `world` decide the same last step.
  absl::Status TakeCommonStep(Collective& world, absl::Time deadline);
  // For an optimizer on new groups: gathers what `failed` left, and goes on
  // behind it.
  absl::Status GoOnBehind(const ShardedOptimizerImpl& failed,
                          absl::Time deadline);
  StepOutcome last_outcome() const {
    return updater_.last_decided().decision.outcome;
  }
  void HandOver() { phase_ = Phase::kHandedOver; }

 private:
  // Of a wait for operations. They give up after `timeout`, and know for whom
  // they waited; so a wait lets their errors come first.
  absl::Time Deadline() const {
    return runtime_.Now() + options_.timeout + options_.timeout / 8;
  }
  absl::Status CheckIndex(int32_t p) const;
  bool LivesHere(int32_t p) const {
    return buffers_.lives(buffers_.bucket_of(p));
  }
  // That the memory of p at `data` is no other parameter's.
  absl::Status CheckUnclaimed(int32_t p, const std::byte* data) const;
  absl::Status CheckAllBound() const;
  absl::Status AwaitLastStep();
  // Runs a wait for other ranks and reports its span.
  template <typename Wait>
  auto Exposed(Wait wait) -> decltype(wait());
  absl::Status WaitForAllBuckets();

  const std::shared_ptr<OptimizerMemory> memory_;
  const OptimizerOptions& options_;
  const Plan& plan_;
  BucketBuffers& buffers_;
  SegmentUpdater& segments_;
  Collective& world_;
  Runtime& runtime_;
  const GroupSet groups_;
  SpanRecorder spans_;
  Stream compute_;
  Reducer reducer_;
  Updater updater_;
  Phase phase_ = Phase::kBinding;
  int64_t step_;
  int32_t micro_batches_ = 1;
  // The last step given to Step; atomic, because waits come from any task.
  std::atomic<int64_t> taken_step_{0};
  int64_t told_step_ = 0;  // The last whose decision the caller was told.
};

}  // namespace muonshard

#endif  // OPTIMIZER_SHARDED_OPTIMIZER_IMPL_H_
