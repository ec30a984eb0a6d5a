#include "optimizer/updater.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/batch.h"
#include "optimizer/step_fields.h"

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

absl::Status CheckOptions(const std::vector<ParameterSpec>& specs,
                          const std::vector<std::string>& schedules,
                          const OptimizerOptions& options,
                          const StepOptions& step) {
  absl::Status s = Validate(step, schedules);
  for (const ParameterSpec& spec : specs) {
    if (s.ok()) s = CheckRates(spec, options, step);
  }
  return s;
}

}  // namespace

Updater::Updater(Collective& world, OptimizerMemory& memory,
                 const GroupSet& groups, Reducer& reducer, Stream& compute,
                 SpanRecorder& spans)
    : world_(world),
      runtime_(world.runtime()),
      options_(memory.options),
      buffers_(memory.buffers),
      plan_(memory.plan),
      groups_(groups),
      reducer_(reducer),
      compute_(compute),
      spans_(spans),
      control_vector_(plan_, world.rank()),
      equality_check_(plan_, world.rank()),
      segments_(memory.segments),
      record_(std::make_shared<Record>()),
      buckets_(plan_.buckets.size()) {
  RestoreStep(memory.restored_step);
  for (BucketState& bucket : buckets_) bucket.mutex = runtime_.NewMutex();
}

void Updater::Step(int64_t step, int32_t micro_batches,
                   const StepOptions& options) {
  const absl::Time deadline = runtime_.Now() + options_.timeout;
  const bool equality_due = EqualityDue(step);
  if (record_->counts()) previous_ = record_;
  record_ = std::make_shared<Record>();
  // Operations of the compute stream hold the record too.
  const std::shared_ptr<Record> record = record_;
  record->control.step = step;
  record->control.micro_batches = micro_batches;
  record->control.options = options;
  record->control.failure = reducer_.failure();
  record->control.absent = reducer_.absent();
  record->options_status =
      CheckOptions(plan_.specs, control_vector_.schedules(), options_, options);
  if (!record->control.failure.has_value()) {
    record->control.failure = control_vector_.Check(options_, options);
  }
  record->equality_due = equality_due;
  record->reductions = reducer_.works();
  record->sums.resize(control_vector_.sum_count());
  record->least.resize(control_vector_.least_count() +
                       (equality_due ? equality_check_.least_count() : 0));
  compute_.Enqueue([this, record](absl::Status upstream) {
    Fill(*record);
    return upstream;
  });
  const absl::Status posted = PostControl(*record, compute_.Record(), deadline);
  if (!posted.ok()) world_.Abort(posted);
  for (const Work& work : record->control_works) {
    compute_.WaitFor(work.event());
  }
  compute_.Enqueue([this, record, posted](absl::Status upstream) {
    Decide(*record, upstream.ok() ? posted : std::move(upstream));
    return absl::OkStatus();
  });
  record->decided = compute_.Record();
  for (size_t i = 0; i < plan_.parts.size(); ++i) {
    const auto part = static_cast<int32_t>(i);
    compute_.Enqueue([this, record, part](absl::Status upstream) {
      if (record->decision.outcome.updated) Update(*record, part);
      // Others may have decided, and then this rank needs them.
      if (record->control_failed) return upstream;
      if (options_.release_gradients) ReleaseGradients(part);
      return upstream;
    });
    const Event updated = compute_.Record();
    for (const int32_t bucket : plan_.parts[i].buckets) {
      if (!buffers_.lives(bucket)) continue;
      absl::StatusOr<Work> gather = PostGather(bucket, step, updated, deadline);
      if (!gather.ok()) {
        // The other ranks must not wait for what will not come.
        const Bucket& layout = plan_.buckets[static_cast<size_t>(bucket)];
        groups_.shards(layout.bucket_class).Abort(gather.status());
      }
      BucketState& state = buckets_[static_cast<size_t>(bucket)];
      MutexLock lock(*state.mutex);
      state.record = record;
      state.posted = gather.status();
      state.gather = gather.ok() ? *std::move(gather) : Work();
      state.updated = updated;
      state.pending = true;
    }
  }
}

// What the last step left open is compared again: a difference stays one. The
// program has waited for the last step, so all ranks say the same.
bool Updater::EqualityDue(int64_t step) const {
  const int64_t interval = options_.equality_check_interval;
  if (interval == 0) return false;
  return (step - 1) % interval == 0 || record_->equality_due;
}

std::span<int64_t> Updater::ComparedOf(Record& record) const {
  return std::span<int64_t>(record.least)
      .subspan(control_vector_.least_count());
}

void Updater::Fill(Record& record) {
  const ReductionSummary& summary = reducer_.summary();
  ControlInput& control = record.control;
  control.squared_norm = summary.squared_norm;
  control.non_finite_count = summary.non_finite_count;
  control.uncounted_non_finite_count = summary.uncounted_non_finite_count;
  record.failure = summary.failure;
  if (!control.failure.has_value() && !summary.failure.ok()) {
    control.failure = StepFailure{
        .parameter = plan_.buckets[static_cast<size_t>(summary.failed_bucket)]
                         .parameters.front(),
        .kind = FailureKind::kFailedReduction};
  }
  control_vector_.Encode(control, record.sums, record.least);
  if (!record.equality_due) return;
  equality_check_.Encode([this](int32_t p) { return segments_.bound(p); },
                         ComparedOf(record));
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
  const absl::Time begin = runtime_.Now();
  absl::StatusOr<std::vector<Work>> works = batch.Post();
  if (!works.ok()) return works.status();
  record.control_works = {(*works)[0], (*works)[1]};
  spans_.RecordUntilDone(record.control_works[1], SpanKind::kControl,
                         record.control.step, 0, begin);
  return absl::OkStatus();
}

void Updater::Decide(Record& record, absl::Status upstream) {
  StepDecision& decision = record.decision;
  if (upstream.ok()) {
    decision =
        control_vector_.Decide(record.control, record.sums, record.least);
    DecideEquality(record);
  } else {
    record.control_failed = true;
    decision.status = absl::Status(
        upstream.code(), absl::StrCat("step ", record.control.step,
                                      " was not taken: ", upstream.message()));
  }
  if (!decision.status.ok()) {
    decision.outcome.updated = false;
    // What all ranks are told names the rank; the cause is known here alone.
    for (const absl::Status& own : {record.options_status, record.failure}) {
      if (own.ok()) continue;
      decision.status = absl::Status(
          decision.status.code(),
          absl::StrCat(decision.status.message(), "; here: ", own.message()));
    }
  }
  if (decision.outcome.updated) segments_.BeginStep(decision);
}

void Updater::DecideEquality(Record& record) {
  if (!record.equality_due || !record.decision.status.ok()) return;
  const absl::Status equal = equality_check_.Check(ComparedOf(record));
  if (equal.ok()) {
    record.equality_due = false;
    return;
  }
  record.decision.status = absl::Status(
      equal.code(), absl::StrCat("step ", record.control.step,
                                 " was not taken: ", equal.message()));
}

void Updater::Update(const Record& record, int32_t part) {
  const absl::Time begin = runtime_.Now();
  absl::Duration muon;
  for (const int32_t bucket : plan_.parts[static_cast<size_t>(part)].buckets) {
    muon += segments_.Update(bucket, record.decision, record.control.options);
  }
  spans_.Record(SpanKind::kUpdate, record.control.step, part, begin, muon);
}

void Updater::ReleaseGradients(int32_t part) {
  for (const int32_t bucket : plan_.parts[static_cast<size_t>(part)].buckets) {
    if (buffers_.lives(bucket)) buffers_.ReleaseGradients(bucket);
  }
}

absl::StatusOr<Work> Updater::PostGather(int32_t bucket, int64_t step,
                                         const Event& updated,
                                         absl::Time deadline) {
  const Bucket& layout = plan_.buckets[static_cast<size_t>(bucket)];
  Collective& group = groups_.shards(layout.bucket_class);
  // A group of one has nothing to send.
  if (group.size() == 1) return Work();
  std::vector<int64_t> counts;
  for (const Segment& segment : layout.segments) {
    counts.push_back(segment.count);
  }
  const MutableBuffer own = buffers_.own_parameters(bucket);
  const absl::Time begin = runtime_.Now();
  absl::StatusOr<Work> posted = group.AllGatherV(
      {own.data, own.count, own.type}, buffers_.parameters(bucket),
      std::move(counts),
      {.label = absl::StrCat("bucket ", bucket, " gather of step ", step),
       .ready = {updated},
       .deadline = deadline});
  if (posted.ok()) {
    spans_.RecordUntilDone(*posted, SpanKind::kGather, step, bucket, begin);
  }
  return posted;
}

Updater::Answer Updater::AwaitDecision(const Record& record,
                                       absl::Time deadline) {
  // Works first: while a program waits in one, its plugin can tell a deadlock.
  // Their errors are part of the decision.
  for (const Work& work : record.reductions) (void)work.Wait(deadline);
  for (const Work& work : record.control_works) (void)work.Wait(deadline);
  absl::Status waited = record.decided.Wait(deadline);
  // It may have been decided just after the wait expired.
  if (!record.decided.done()) return {.status = std::move(waited)};
  return {.decided = true,
          .status = record.decision.status,
          .outcome = record.decision.outcome};
}

absl::Status Updater::WaitForBucket(int32_t bucket, absl::Time deadline) {
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  std::shared_ptr<const Record> record;
  absl::Status gathered;
  Work gather;
  Event updated;
  {
    MutexLock lock(*state.mutex);
    if (!state.pending) return absl::OkStatus();
    record = state.record;
    gathered = state.posted;
    gather = state.gather;
    updated = state.updated;
  }
  const Answer answer = AwaitDecision(*record, deadline);
  if (gathered.ok()) gathered = gather.Wait(deadline);
  // A group of one gathers nothing; then this is what there is to wait for.
  absl::Status ran = updated.Wait(deadline);
  if (gathered.ok()) gathered = std::move(ran);
  const bool ended = gather.done() && updated.done();
  MutexLock lock(*state.mutex);
  // Another task may have seen this step to its end meanwhile.
  if (!state.pending || state.record != record) return answer.status;
  if (!answer.decided) return answer.status;
  if (!answer.status.ok() || !answer.outcome.updated) {
    // Nothing is copied, and the buffers are free when all has ended.
    state.pending = !ended;
    return answer.status.ok() && !ended ? gathered : answer.status;
  }
  if (!gathered.ok()) return gathered;
  segments_.CopyOut(bucket);
  state.pending = false;
  return absl::OkStatus();
}

absl::Status Updater::AwaitUpdate(int32_t bucket, absl::Time deadline) const {
  const BucketState& state = buckets_[static_cast<size_t>(bucket)];
  std::shared_ptr<const Record> record;
  Event updated;
  {
    MutexLock lock(*state.mutex);
    if (!state.pending) return absl::OkStatus();
    record = state.record;
    updated = state.updated;
  }
  (void)AwaitDecision(*record, deadline);
  absl::Status ran = updated.Wait(deadline);
  return updated.done() ? absl::OkStatus() : ran;
}

bool Updater::pending(int32_t bucket) const {
  const BucketState& state = buckets_[static_cast<size_t>(bucket)];
  MutexLock lock(*state.mutex);
  return state.pending;
}

bool Updater::AwaitAll(absl::Time deadline) {
  std::vector<Work> works = reducer_.works();
  works.insert(works.end(), record_->control_works.begin(),
               record_->control_works.end());
  for (const BucketState& state : buckets_) {
    MutexLock lock(*state.mutex);
    works.push_back(state.gather);
  }
  for (const Work& work : works) {
    (void)work.Wait(deadline);
    if (!work.done()) return false;
  }
  return true;
}

}  // namespace muonshard
