#include "optimizer/sharded_optimizer_impl.h"

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace muonshard {

ShardedOptimizerImpl::ShardedOptimizerImpl(
    std::shared_ptr<OptimizerMemory> memory, Collective& world, GroupSet groups,
    StepTraceSink trace)
    : memory_(std::move(memory)),
      options_(memory_->options),
      plan_(memory_->plan),
      buffers_(memory_->buffers),
      segments_(memory_->segments),
      world_(world),
      runtime_(world.runtime()),
      groups_(std::move(groups)),
      spans_(runtime_, std::move(trace)),
      compute_(runtime_, absl::StrCat("compute of rank ", ToInt(world.rank()))),
      reducer_(runtime_, options_, buffers_, groups_, compute_, spans_),
      updater_(world, *memory_, groups_, reducer_, compute_, spans_),
      step_(memory_->restored_step) {}

ShardedOptimizerImpl::~ShardedOptimizerImpl() {
  // Operations hold the buffers until they end; if they do not end by
  // themselves their groups are broken.
  if (!updater_.AwaitAll(Deadline())) {
    EndAll(absl::AbortedError(
        absl::StrCat("rank ", ToInt(world_.rank()),
                     " destroyed its optimizer during a step")));
  }
  // What is left on the compute stream waits for nothing any more, and uses
  // the members that are destroyed before the stream.
  (void)compute_.Synchronize(absl::InfiniteFuture());
}

void ShardedOptimizerImpl::EndAll(const absl::Status& reason) {
  groups_.Abort(reason);
  world_.Abort(reason);
  (void)updater_.AwaitAll(absl::InfiniteFuture());
  (void)compute_.Synchronize(absl::InfiniteFuture());
}

absl::Status ShardedOptimizerImpl::CheckIndex(int32_t p) const {
  if (p >= 0 && p < static_cast<int32_t>(plan_.specs.size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "parameter ", p, ": want an index in [0, ", plan_.specs.size(), ")"));
}

absl::Status ShardedOptimizerImpl::CheckUnclaimed(int32_t p,
                                                  const std::byte* data) const {
  const auto bytes_of = [this](int32_t index) {
    const ParameterSpec& spec = plan_.specs[static_cast<size_t>(index)];
    return static_cast<uintptr_t>(ElementCount(spec)) * ByteWidth(spec.dtype);
  };
  const auto begin = reinterpret_cast<uintptr_t>(data);
  for (size_t i = 0; i < plan_.specs.size(); ++i) {
    const auto other = static_cast<int32_t>(i);
    const std::byte* bound = segments_.bound(other);
    if (bound == nullptr) continue;
    const auto other_begin = reinterpret_cast<uintptr_t>(bound);
    if (begin >= other_begin + bytes_of(other) ||
        other_begin >= begin + bytes_of(p)) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("parameter \"", plan_.specs[static_cast<size_t>(p)].name,
                     "\": want memory of its own, got some that parameter \"",
                     plan_.specs[i].name, "\" is bound to"));
  }
  return absl::OkStatus();
}

absl::Status ShardedOptimizerImpl::BindParameter(int32_t p, void* data) {
  if (absl::Status s = CheckIndex(p); !s.ok()) return s;
  const std::string& name = plan_.specs[static_cast<size_t>(p)].name;
  if (!LivesHere(p)) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter \"", name, "\" does not live on rank ",
                     ToInt(world_.rank()), "; want it bound where it does"));
  }
  if (data == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter \"", name, "\": want memory, got null"));
  }
  if (phase_ != Phase::kBinding) {
    return absl::FailedPreconditionError(absl::StrCat(
        "parameter \"", name, "\": want it bound before the first BeginStep"));
  }
  if (segments_.bound(p) != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("parameter \"", name, "\" is bound already"));
  }
  auto* memory = static_cast<std::byte*>(data);
  if (absl::Status s = CheckUnclaimed(p, memory); !s.ok()) return s;
  segments_.Bind(p, memory);
  return absl::OkStatus();
}

absl::Status ShardedOptimizerImpl::CheckAllBound() const {
  for (size_t p = 0; p < plan_.specs.size(); ++p) {
    const auto index = static_cast<int32_t>(p);
    if (!LivesHere(index) || segments_.bound(index) != nullptr) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "parameter \"", plan_.specs[p].name, "\" is not bound to memory"));
  }
  return absl::OkStatus();
}

absl::Status ShardedOptimizerImpl::RestoreState(int32_t p,
                                                const ParameterState& state) {
  if (absl::Status s = CheckIndex(p); !s.ok()) return s;
  if (phase_ != Phase::kBinding) {
    return absl::FailedPreconditionError(absl::StrCat(
        "state of parameter \"", plan_.specs[static_cast<size_t>(p)].name,
        "\": want it restored before the first BeginStep"));
  }
  return segments_.Restore(p, state);
}

absl::Status ShardedOptimizerImpl::RestoreStep(int64_t step) {
  if (step < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("restored step: want >= 0, got ", step));
  }
  if (phase_ != Phase::kBinding) {
    return absl::FailedPreconditionError(absl::StrCat(
        "restored step ", step, ": want it before the first BeginStep"));
  }
  memory_->restored_step = step;
  updater_.RestoreStep(step);
  step_ = step;
  return absl::OkStatus();
}

absl::Status ShardedOptimizerImpl::BeginStep(int32_t micro_batches) {
  if (micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro-batches: want >= 1, got ", micro_batches));
  }
  if (phase_ == Phase::kBackward || phase_ == Phase::kReduced) {
    return absl::FailedPreconditionError(absl::StrCat(
        "BeginStep of ", micro_batches, " micro-batches: step ", step_, " of ",
        micro_batches_, " is not over; want Finish and Step"));
  }
  if (phase_ == Phase::kHandedOver) {
    return absl::FailedPreconditionError(
        "BeginStep: Resync has made another optimizer of this one");
  }
  if (absl::Status s = CheckAllBound(); !s.ok()) return s;
  if (absl::Status s = AwaitLastStep(); !s.ok()) return s;
  ++step_;
  reducer_.Begin(step_, micro_batches);
  micro_batches_ = micro_batches;
  phase_ = Phase::kBackward;
  return absl::OkStatus();
}

// What the last step's update reads must not change under it. An error of that
// step does not stop the next, once it has been told.
absl::Status ShardedOptimizerImpl::AwaitLastStep() {
  const absl::Status waited = WaitForAllBuckets();
  for (size_t b = 0; b < plan_.buckets.size(); ++b) {
    if (!updater_.pending(static_cast<int32_t>(b))) continue;
    return absl::Status(
        waited.ok() ? absl::StatusCode::kInternal : waited.code(),
        absl::StrCat(
            "BeginStep: the parameters of bucket ", b, " of step ", step_,
            " did not come, so this optimizer cannot go on; want Resync "
            "on a new group: ",
            waited.message()));
  }
  if (told_step_ < taken_step_) {
    if (absl::Status s = Outcome().status(); !s.ok()) return s;
  }
  if (updater_.control_failed()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "BeginStep: the control all-reduce of step ", step_,
        " failed, so other ranks may have decided otherwise; want Resync on a "
        "new group"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ReducedGradients> ShardedOptimizerImpl::Finish() {
  if (phase_ != Phase::kBackward) {
    return absl::FailedPreconditionError("Finish: want BeginStep before it");
  }
  if (absl::Status s = reducer_.Finish(); !s.ok()) return s;
  phase_ = Phase::kReduced;
  return MakeReducedGradients(step_);
}

absl::Status ShardedOptimizerImpl::Step(ReducedGradients gradients,
                                        const StepOptions& options) {
  if (!Consume(std::move(gradients)) || phase_ != Phase::kReduced) {
    return absl::FailedPreconditionError(
        "Step: want the ReducedGradients that this optimizer's Finish just "
        "returned");
  }
  phase_ = Phase::kStepped;
  taken_step_ = step_;
  StepOptions filled = options;
  if (!filled.muon_learning_rate.has_value()) {
    filled.muon_learning_rate = options_.muon.learning_rate;
  }
  if (!filled.adamw_learning_rate.has_value()) {
    filled.adamw_learning_rate = options_.adamw.learning_rate;
  }
  updater_.Step(step_, micro_batches_, filled);
  if (options_.gather == GatherMode::kEager) return Synchronize();
  if (options_.synchronous_errors) return Outcome().status();
  return absl::OkStatus();
}

template <typename Wait>
auto ShardedOptimizerImpl::Exposed(Wait wait) -> decltype(wait()) {
  const absl::Time begin = runtime_.Now();
  auto result = wait();
  spans_.Record(SpanKind::kWait, taken_step_, 0, begin);
  return result;
}

absl::StatusOr<StepOutcome> ShardedOptimizerImpl::Outcome() {
  if (taken_step_ == 0) {
    return absl::FailedPreconditionError("Outcome: want a Step before it");
  }
  const Updater::Answer answer =
      Exposed([&] { return updater_.AwaitOutcome(Deadline()); });
  if (answer.decided) told_step_ = taken_step_;
  if (!answer.status.ok()) return answer.status;
  return answer.outcome;
}

absl::Status ShardedOptimizerImpl::WaitForParameters(int32_t p) {
  if (absl::Status s = CheckIndex(p); !s.ok()) return s;
  const int32_t bucket = buffers_.bucket_of(p);
  if (!updater_.pending(bucket)) return absl::OkStatus();
  return Exposed([&] { return updater_.WaitForBucket(bucket, Deadline()); });
}

absl::Status ShardedOptimizerImpl::WaitForParameters(absl::string_view name) {
  for (size_t p = 0; p < plan_.specs.size(); ++p) {
    if (plan_.specs[p].name != name) continue;
    return WaitForParameters(static_cast<int32_t>(p));
  }
  return absl::NotFoundError(absl::StrCat("parameter \"", absl::CEscape(name),
                                          "\": no spec has this name"));
}

absl::Status ShardedOptimizerImpl::WaitForParameters() {
  return Exposed([&] { return WaitForAllBuckets(); });
}

absl::Status ShardedOptimizerImpl::WaitForAllBuckets() {
  absl::Status first;
  const absl::Time deadline = Deadline();
  // Parts are gathered in forward order, the reverse of the buckets'.
  for (const Part& part : plan_.parts) {
    for (const int32_t bucket : part.buckets) {
      absl::Status s = updater_.WaitForBucket(bucket, deadline);
      if (first.ok()) first = std::move(s);
    }
  }
  return first;
}

absl::Status ShardedOptimizerImpl::Synchronize() {
  if (phase_ != Phase::kStepped) return absl::OkStatus();
  const absl::Status waited = Exposed([&] { return WaitForAllBuckets(); });
  absl::Status decided = Outcome().status();
  return decided.ok() ? waited : decided;
}

absl::StatusOr<ParameterState> ShardedOptimizerImpl::State(int32_t p) {
  if (absl::Status s = CheckIndex(p); !s.ok()) return s;
  if (!LivesHere(p)) return ParameterState();
  const absl::Status waited = Exposed(
      [&] { return updater_.AwaitUpdate(buffers_.bucket_of(p), Deadline()); });
  if (!waited.ok()) return waited;
  return segments_.State(p);
}

absl::StatusOr<OptimizerStatistics> ShardedOptimizerImpl::Statistics() const {
  OptimizerStatistics statistics;
  absl::StatusOr<uint64_t> buckets = groups_.BytesSent();
  if (!buckets.ok()) return buckets.status();
  absl::StatusOr<CollectiveCounters> control = world_.Counters();
  if (!control.ok()) return control.status();
  statistics.bucket_bytes_sent = *buckets;
  statistics.control_bytes_sent = control->bytes_sent();
  statistics.view_misses = reducer_.view_misses();
  statistics.gradient_bytes_held = buffers_.gradient_bytes();
  return statistics;
}

}  // namespace muonshard
