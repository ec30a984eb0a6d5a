// Decides a step with all ranks, updates part by part, and gathers.
//
// Life of a step here: when the compute stream has summed the reduced segments
// it fills the control vectors, in some steps with hashes of the parameters;
// two all-reduces over the world carry them round; behind these the compute
// stream decides, then updates part after part in forward order. The gathers of
// a part are ready when its update has ended, so part i + 1 updates while part
// i travels. What was gathered is copied to the parameters by whoever waits for
// them first.
//
// Ordering     Everything is posted by `Step`, in plan order, whatever the
//              decision will be: a skipped step gathers too, and copies
//              nothing. Buckets whose parameters do not live on this rank are
//              passed over.
// Memory       Of gradients that are to be released, a part's are given back
//              behind its update, updated or not; but not if the control
//              all-reduce failed, for others may have decided.
// Threads      `WaitForBucket` and `pending` from any task, the rest from the
//              program.
// Errors       A failed control all-reduce reads as "skip" and is the step's
//              error. A failed gather is the error of the waits for it.

#ifndef OPTIMIZER_UPDATER_H_
#define OPTIMIZER_UPDATER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/stream.h"
#include "collectives/work.h"
#include "optimizer/equality_check.h"
#include "optimizer/group_set.h"
#include "optimizer/optimizer_memory.h"
#include "optimizer/options.h"
#include "optimizer/reducer.h"
#include "optimizer/resync.h"
#include "optimizer/span_recorder.h"
#include "optimizer/step_record.h"

namespace muonshard {

class Updater {
 public:
  // All arguments outlive it.
  Updater(Collective& world, OptimizerMemory& memory, const GroupSet& groups,
          Reducer& reducer, Stream& compute, SpanRecorder& spans);

  void RestoreStep(int64_t step) {
    record_->control.step = record_->decision.outcome.step = step;
  }

  // Launches control, updates and gathers of the step that `reducer` finished.
  void Step(int64_t step, int32_t micro_batches, const StepOptions& options);

  // What a wait for a step's decision found.
  struct Answer {
    bool decided = false;  // False: the wait expired, and that is all.
    absl::Status status;   // The step's error, or kDeadlineExceeded.
    StepOutcome outcome;
  };
  Answer AwaitOutcome(absl::Time deadline) const {
    return AwaitDecision(*record_, deadline);
  }

  // Whether the step's control failed, so that others may have decided.
  bool control_failed() const { return record_->control_failed; }

  // Waits until the parameters of a bucket have their new values.
  absl::Status WaitForBucket(int32_t bucket, absl::Time deadline);

  // Waits until no update of the latest step writes the state of a bucket.
  absl::Status AwaitUpdate(int32_t bucket, absl::Time deadline) const;

  // Whether a bucket's parameters are still to be copied out.
  bool pending(int32_t bucket) const;

  // Waits until no operation holds a buffer; false if the deadline came first.
  bool AwaitAll(absl::Time deadline);

  // The rest is for a new group of the same ranks, see resync.h, when all that
  // was posted has ended.
  StepStanding standing() const;
  StepRecord& latest() { return *record_; }
  const StepRecord& last_decided() const {
    return record_->counts() ? *record_ : *previous_;
  }

  // Decides the latest step from its control vectors as they are now, and
  // updates the own segments.
  void TakeDecision();
  // Goes on behind what `failed`, of the same memory, decided last.
  void Follow(const Updater& failed);

  // Gathers all parameters from their owners, and copies them out.
  absl::Status GatherAgain(absl::Time deadline);

 private:
  using Record = StepRecord;
  // The gather of one bucket in the latest step. Guarded by `mutex`.
  struct BucketState {
    std::unique_ptr<Mutex> mutex;
    std::shared_ptr<const Record> record;
    absl::Status posted;
    Work gather;
    Event updated;
    bool pending = false;  // Not copied out.
  };

  bool EqualityDue(int64_t step) const;
  // The part of Record::least in which parameters are compared.
  std::span<int64_t> ComparedOf(Record& record) const;
  void Fill(Record& record);
  absl::Status PostControl(Record& record, const Event& filled,
                           absl::Time deadline);
  void Decide(Record& record, absl::Status upstream);
  void DecideEquality(Record& record);
  void Update(const Record& record, int32_t part);
  void ReleaseGradients(int32_t part);
  absl::StatusOr<Work> PostGather(int32_t bucket, int64_t step,
                                  const Event& updated, absl::Time deadline);
  static Answer AwaitDecision(const Record& record, absl::Time deadline);

  Collective& world_;
  Runtime& runtime_;
  const OptimizerOptions& options_;
  BucketBuffers& buffers_;
  const Plan& plan_;
  const GroupSet& groups_;
  Reducer& reducer_;
  Stream& compute_;
  SpanRecorder& spans_;
  const ControlVector control_vector_;
  const EqualityCheck equality_check_;
  SegmentUpdater& segments_;
  std::shared_ptr<Record> record_;    // Of the latest step.
  std::shared_ptr<Record> previous_;  // Of the last before it that counts.
  std::vector<BucketState> buckets_;
};

}  // namespace muonshard

#endif  // OPTIMIZER_UPDATER_H_
