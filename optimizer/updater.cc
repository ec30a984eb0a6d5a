#include "optimizer/updater.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/batch.h"

namespace muonshard {
namespace {

Operation ControlAllReduce(std::vector<int64_t>& values, ReductionKind kind,
                           absl::string_view label, const Event& filled,
                           absl::Time deadline) {
  Operation operation;
  operation.kind = OperationKind::kAllReduce;
  operation.data_type = DataType::kI64;
  operation.reduction.kind = kind;
  operation.in = ConstBuffer::Of<int64_t>(values);
  operation.out = MutableBuffer::Of<int64_t>(values);
  operation.options.label = std::string(label);
  operation.options.ready.push_back(filled);
  operation.options.deadline = deadline;
  return operation;
}

}  // namespace

Updater::Updater(Collective& world, const OptimizerOptions& options,
                 BucketBuffers& buffers, const GroupSet& groups,
                 Reducer& reducer, Stream& compute, const StepTraceSink& trace)
    : world_(world),
      runtime_(world.runtime()),
      options_(options),
      buffers_(buffers),
      plan_(buffers.plan()),
      groups_(groups),
      reducer_(reducer),
      compute_(compute),
      trace_(trace),
      control_vector_(plan_, world.rank()),
      segments_(world.runtime(), options, buffers),
      mutex_(world.runtime().NewMutex()),
      buckets_(plan_.buckets.size()) {}

void Updater::Step(int64_t step, int32_t micro_batches,
                   const StepOptions& options) {
  const absl::Time deadline = runtime_.Now() + options_.timeout;
  record_ = {};
  ControlInput& control = record_.control;
  control.step = step;
  control.micro_batches = micro_batches;
  control.options = options;
  control.failure = reducer_.failure();
  control.absent = reducer_.absent();
  if (!control.failure.has_value() && !Validate(options).ok()) {
    control.failure = StepFailure{.kind = FailureKind::kStepOptions};
  }
  record_.sums.resize(control_vector_.sum_count());
  record_.least.resize(ControlVector::least_count());
  compute_.Enqueue([this](absl::Status upstream) {
    const ReductionSummary& summary = reducer_.summary();
    record_.control.squared_norm = summary.squared_norm;
    record_.control.non_finite_count = summary.non_finite_count;
    record_.control.bucket_failed = !summary.failure.ok();
    control_vector_.Encode(record_.control, record_.sums, record_.least);
    return upstream;
  });
  EnqueueDecision(record_, PostControl(record_, compute_.Record(), deadline));
  record_.decided = compute_.Record();
  for (size_t i = 0; i < plan_.parts.size(); ++i) {
    EnqueueUpdate(static_cast<int32_t>(i));
    const Event updated = compute_.Record();
    for (const int32_t bucket : plan_.parts[i].buckets) {
      absl::Status posted = PostGather(bucket, updated, deadline);
      MutexLock lock(*mutex_);
      BucketState& state = buckets_[static_cast<size_t>(bucket)];
      state.posted = std::move(posted);
      state.pending = true;
    }
  }
}

absl::Status Updater::PostControl(Record& record, const Event& filled,
                                  absl::Time deadline) {
  const std::string label =
      absl::StrCat("control of step ", record.control.step);
  Batch batch;
  absl::Status s =
      batch.Add(world_, ControlAllReduce(record.sums, ReductionKind::kSum,
                                         label + ", sums", filled, deadline));
  if (!s.ok()) return s;
  s = batch.Add(world_, ControlAllReduce(record.least, ReductionKind::kMin,
                                         label + ", least", filled, deadline));
  if (!s.ok()) return s;
  absl::StatusOr<std::vector<Work>> works = batch.Post();
  if (!works.ok()) return works.status();
  record.control_works = {(*works)[0], (*works)[1]};
  TraceWhenDone(record.control_works[1], SpanKind::kControl, 0);
  return absl::OkStatus();
}

void Updater::EnqueueDecision(Record& record, const absl::Status& posted) {
  for (const Work& work : record.control_works) compute_.WaitFor(work.event());
  compute_.Enqueue([this, posted](absl::Status upstream) {
    if (upstream.ok()) upstream = posted;
    StepDecision& decision = record_.decision;
    if (upstream.ok()) {
      decision =
          control_vector_.Decide(record_.control, record_.sums, record_.least);
    } else {
      decision.status =
          absl::Status(upstream.code(),
                       absl::StrCat("step ", record_.control.step,
                                    " was not taken: ", upstream.message()));
    }
    if (!decision.status.ok()) decision.outcome.updated = false;
    if (decision.outcome.updated) segments_.BeginStep(decision);
    return absl::OkStatus();
  });
}

void Updater::EnqueueUpdate(int32_t part) {
  compute_.Enqueue([this, part](absl::Status upstream) {
    if (!record_.decision.outcome.updated) return upstream;
    const absl::Time begin = runtime_.Now();
    absl::Duration muon;
    for (const int32_t bucket :
         plan_.parts[static_cast<size_t>(part)].buckets) {
      muon +=
          segments_.Update(bucket, record_.decision, record_.control.options);
    }
    if (trace_) {
      trace_({.kind = SpanKind::kUpdate,
              .step = record_.control.step,
              .index = part,
              .begin = begin,
              .end = runtime_.Now(),
              .newton_schulz = muon});
    }
    return upstream;
  });
}

absl::Status Updater::PostGather(int32_t bucket, const Event& updated,
                                 absl::Time deadline) {
  const Bucket& layout = plan_.buckets[static_cast<size_t>(bucket)];
  Work gather;
  Collective& group = groups_.shards(layout.bucket_class);
  if (group.size() > 1) {
    std::vector<int64_t> counts;
    for (const Segment& segment : layout.segments) {
      counts.push_back(segment.count);
    }
    const MutableBuffer own = buffers_.own_parameters(bucket);
    absl::StatusOr<Work> posted = group.AllGatherV(
        {own.data, own.count, own.type}, buffers_.parameters(bucket),
        std::move(counts),
        {.label = absl::StrCat("bucket ", bucket, " gather of step ",
                               record_.control.step),
         .ready = {updated},
         .deadline = deadline});
    if (!posted.ok()) return posted.status();
    gather = *std::move(posted);
    TraceWhenDone(gather, SpanKind::kGather, bucket);
  }
  MutexLock lock(*mutex_);
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  state.gather = gather;
  state.updated = updated;
  return absl::OkStatus();
}

bool Updater::pending(int32_t bucket) const {
  MutexLock lock(*mutex_);
  return buckets_[static_cast<size_t>(bucket)].pending;
}

bool Updater::busy() const {
  MutexLock lock(*mutex_);
  return std::any_of(buckets_.begin(), buckets_.end(),
                     [](const BucketState& state) { return state.pending; });
}

bool Updater::AwaitAll(absl::Time deadline) {
  if (!reducer_.AwaitReductions(deadline)) return false;
  for (const Work& work : record_.control_works) {
    (void)work.Wait(deadline);
    if (!work.done()) return false;
  }
  MutexLock lock(*mutex_);
  for (const BucketState& state : buckets_) {
    (void)state.gather.Wait(deadline);
    if (!state.gather.done()) return false;
  }
  return true;
}

void Updater::TraceWhenDone(const Work& work, SpanKind kind, int32_t index) {
  if (!trace_) return;
  const absl::Time begin = runtime_.Now();
  work.event().Then([this, kind, index, begin,
                     step = record_.control.step](const absl::Status&) {
    trace_({.kind = kind,
            .step = step,
            .index = index,
            .begin = begin,
            .end = runtime_.Now()});
  });
}

absl::Status Updater::AwaitDecision(absl::Time deadline) {
  // Works first: while a program waits in one, its plugin can tell a deadlock.
  (void)reducer_.AwaitReductions(deadline);
  for (const Work& work : record_.control_works) (void)work.Wait(deadline);
  if (absl::Status s = record_.decided.Wait(deadline); !s.ok()) return s;
  return record_.decision.status;
}

absl::StatusOr<StepOutcome> Updater::Outcome(absl::Time deadline) {
  if (absl::Status s = AwaitDecision(deadline); !s.ok()) return s;
  return record_.decision.outcome;
}

absl::Status Updater::WaitForBucket(int32_t bucket, absl::Time deadline) {
  BucketState now;
  {
    MutexLock lock(*mutex_);
    now = buckets_[static_cast<size_t>(bucket)];
  }
  if (!now.pending) return absl::OkStatus();
  if (!now.posted.ok()) return now.posted;
  const absl::Status decided = AwaitDecision(deadline);
  absl::Status gathered = now.gather.Wait(deadline);
  // A group of one gathers nothing; then this is what there is to wait for.
  if (gathered.ok()) gathered = now.updated.Wait(deadline);
  MutexLock lock(*mutex_);
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  if (!state.pending) return decided;
  if (!decided.ok() || !record_.decision.outcome.updated) {
    if (now.gather.done() && now.updated.done()) state.pending = false;
    return decided;
  }
  if (!gathered.ok()) return gathered;
  segments_.CopyOut(bucket);
  state.pending = false;
  return absl::OkStatus();
}

}  // namespace muonshard
