// What an Updater does on a new group of the same ranks.

#include <cstddef>
#include <utility>
#include <vector>

#include "optimizer/updater.h"

namespace muonshard {

StepStanding Updater::standing() const {
  return {.decided = last_decided().control.step,
          .kept = record_->control_failed ? record_->control.step : 0};
}

void Updater::TakeDecision() {
  record_->control_failed = false;
  record_->decision = {};
  Decide(*record_, absl::OkStatus());
  if (!record_->decision.outcome.updated) return;
  for (size_t i = 0; i < plan_.parts.size(); ++i) {
    Update(*record_, static_cast<int32_t>(i));
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    if (!buffers_.lives(static_cast<int32_t>(b))) continue;
    BucketState& state = buckets_[b];
    MutexLock lock(*state.mutex);
    state.record = record_;
    state.pending = true;
  }
}

void Updater::Follow(const Updater& failed) {
  record_ = failed.record_->counts() ? failed.record_ : failed.previous_;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const BucketState& other = failed.buckets_[b];
    MutexLock other_lock(*other.mutex);
    MutexLock lock(*buckets_[b].mutex);
    // Of a step that was not decided nothing is to be copied out.
    buckets_[b].pending = other.pending && other.record == record_ &&
                          record_->decision.outcome.updated;
  }
}

absl::Status Updater::GatherAgain(absl::Time deadline) {
  absl::Status first;
  std::vector<Work> works;
  for (const Part& part : plan_.parts) {
    for (const int32_t bucket : part.buckets) {
      if (!buffers_.lives(bucket)) continue;
      // What was not copied out is newer than the parameters.
      if (!pending(bucket)) segments_.CopyIn(bucket);
      absl::StatusOr<Work> gather =
          PostGather(bucket, record_->control.step, Event(), deadline);
      if (gather.ok()) {
        works.push_back(*std::move(gather));
        continue;
      }
      // The other ranks must not wait for what will not come.
      groups_.Abort(gather.status());
      if (first.ok()) first = gather.status();
    }
  }
  for (const Work& work : works) {
    absl::Status ended = work.Wait(absl::InfiniteFuture());
    if (first.ok()) first = std::move(ended);
  }
  if (!first.ok()) return first;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const auto bucket = static_cast<int32_t>(b);
    if (!buffers_.lives(bucket)) continue;
    segments_.CopyOut(bucket);
    if (options_.release_gradients) buffers_.ReleaseGradients(bucket);
    MutexLock lock(*buckets_[b].mutex);
    buckets_[b].pending = false;
  }
  return absl::OkStatus();
}

}  // namespace muonshard
