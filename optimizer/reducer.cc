#include "optimizer/reducer.h"

#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"
#include "optimizer/compute/gradient_norm.h"
#include "optimizer/compute/update.h"
#include "optimizer/muon_unit.h"

namespace muonshard {

// The norm must not depend on where the plan cuts.
static_assert(kChunkCount == int64_t{kSquaresChunkCount});

namespace {

ConstBuffer AsConst(const MutableBuffer& buffer) {
  return {buffer.data, buffer.count, buffer.type};
}

// The scale of each level's sum; see the header.
struct LevelScales {
  double shards = 1;
  double replicas = 1;
};

// The parameters of `buffers` that this rank has.
std::vector<bool> LivesHere(const BucketBuffers& buffers) {
  std::vector<bool> lives(buffers.plan().specs.size());
  for (size_t p = 0; p < lives.size(); ++p) {
    lives[p] = buffers.lives(buffers.bucket_of(static_cast<int32_t>(p)));
  }
  return lives;
}

LevelScales ScalesOf(const BucketClass& bucket_class, int64_t divisor) {
  const double whole = 1.0 / static_cast<double>(divisor);
  if (bucket_class.replica_size == 1) return {.shards = whole};
  if (bucket_class.gradient_dtype == DataType::kF32) {
    return {.replicas = whole};
  }
  const double group = bucket_class.group_size;
  return {.shards = 1 / group,
          .replicas = group / static_cast<double>(divisor)};
}

}  // namespace

Reducer::Reducer(Runtime& runtime, const OptimizerOptions& options,
                 BucketBuffers& buffers, const GroupSet& groups,
                 Stream& compute, SpanRecorder& spans)
    : runtime_(runtime),
      options_(options),
      buffers_(buffers),
      plan_(buffers.plan()),
      groups_(groups),
      compute_(compute),
      spans_(spans),
      mutex_(runtime.NewMutex()),
      filled_(runtime.NewCondition()),
      ledger_(plan_.specs, LivesHere(buffers)),
      buckets_(plan_.buckets.size()) {}

void Reducer::Begin(int64_t step, int32_t micro_batches) {
  buffers_.HoldGradients();
  // A view is zero when the backward finds it.
  for (size_t p = 0; p < plan_.specs.size(); ++p) {
    if (plan_.specs[p].gradient_mode != GradientMode::kView) continue;
    Clear(static_cast<int32_t>(p));
  }
  MutexLock lock(*mutex_);
  step_ = step;
  ledger_.Begin(step, micro_batches);
  summary_ = {};
  next_launch_ = 0;
  open_ = true;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    buckets_[b].missing =
        buffers_.lives(static_cast<int32_t>(b))
            ? static_cast<int32_t>(plan_.buckets[b].parameters.size())
            : 0;
  }
}

void* Reducer::View(int32_t parameter) {
  MutexLock lock(*mutex_);
  // After Finish the memory may be released at any moment.
  if (options_.release_gradients && !open_) return nullptr;
  return LockedView(parameter);
}

void* Reducer::LockedView(int32_t parameter) {
  const ParameterSpec& spec = plan_.specs[static_cast<size_t>(parameter)];
  if (spec.gradient_mode != GradientMode::kView) return nullptr;
  return buffers_.whole_gradient_of(parameter);
}

absl::Status Reducer::GradientReady(int32_t parameter, const void* data,
                                    int64_t count, DataType dtype) {
  if (parameter < 0 || parameter >= static_cast<int32_t>(plan_.specs.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient of parameter ", parameter,
                     ": want an index in [0, ", plan_.specs.size(), ")"));
  }
  const ParameterSpec& spec = plan_.specs[static_cast<size_t>(parameter)];
  const auto bucket = static_cast<size_t>(buffers_.bucket_of(parameter));
  CheckInLedger::Turn turn;
  {
    MutexLock lock(*mutex_);
    if (!open_) {
      return absl::FailedPreconditionError(
          absl::StrCat("gradient of parameter \"", spec.name,
                       "\": want it between BeginStep and Finish"));
    }
    // Nothing at all is a gradient of no elements.
    absl::StatusOr<CheckInLedger::Turn> counted =
        ledger_.Count(parameter, data == nullptr ? 0 : count, dtype);
    if (!counted.ok()) return counted.status();
    turn = *counted;
    const void* view = LockedView(parameter);
    if (view != nullptr && data != view) ++view_misses_;
    ++filling_;
  }
  // Where the number of check-ins is not known, any may have been the last.
  if (turn.last || spec.gradient_mode != GradientMode::kCopyLast ||
      spec.check_ins != CheckIns::kExactly) {
    Fill(parameter, data, dtype, turn.first);
  }
  MutexLock lock(*mutex_);
  if (turn.last) {
    --buckets_[bucket].missing;
    if (options_.overlap) LaunchFull();
  }
  if (--filling_ == 0) filled_->NotifyAll();
  return absl::OkStatus();
}

void Reducer::Fill(int32_t parameter, const void* data, DataType dtype,
                   bool first) {
  const int32_t bucket = buffers_.bucket_of(parameter);
  const std::vector<Piece>& pieces =
      plan_.buckets[static_cast<size_t>(bucket)].pieces;
  const DataType type = buffers_.gradients(bucket).type;
  const bool adds = plan_.specs[static_cast<size_t>(parameter)].gradient_mode ==
                    GradientMode::kAccumulate;
  for (const int32_t i : buffers_.pieces_of(parameter)) {
    const Piece& piece = pieces[static_cast<size_t>(i)];
    const std::byte* from =
        static_cast<const std::byte*>(data) +
        static_cast<size_t>(piece.parameter_offset) * ByteWidth(dtype);
    std::byte* to = buffers_.gradient_of(bucket, piece);
    const auto count = static_cast<size_t>(piece.count);
    if (from == to) continue;
    if (!adds) {
      std::memcpy(to, from, count * ByteWidth(type));
      continue;
    }
    // Only buckets of f32 are added to; see ParameterSpec. From zero, so that
    // the first gradient is rounded and signed as the later ones are.
    if (first) std::memset(to, 0, count * ByteWidth(type));
    AddToFloat(dtype, from,
               std::span<float>(reinterpret_cast<float*>(to), count));
  }
}

void Reducer::Clear(int32_t parameter) {
  const int32_t bucket = buffers_.bucket_of(parameter);
  if (!buffers_.lives(bucket)) return;
  const std::vector<Piece>& pieces =
      plan_.buckets[static_cast<size_t>(bucket)].pieces;
  const size_t width = ByteWidth(buffers_.gradients(bucket).type);
  for (const int32_t i : buffers_.pieces_of(parameter)) {
    const Piece& piece = pieces[static_cast<size_t>(i)];
    std::memset(buffers_.gradient_of(bucket, piece), 0,
                static_cast<size_t>(piece.count) * width);
  }
}

absl::Status Reducer::Finish() {
  MutexLock lock(*mutex_);
  if (!open_) {
    return absl::FailedPreconditionError("Finish: want BeginStep before it");
  }
  open_ = false;
  // What was counted is part of the step. A copy takes no other task's help.
  while (filling_ > 0) filled_->Wait(*mutex_, absl::InfiniteFuture());
  absent_ = ledger_.End();
  for (size_t p = 0; p < absent_.size(); ++p) {
    if (absent_[p]) Clear(static_cast<int32_t>(p));
  }
  for (BucketState& bucket : buckets_) bucket.missing = 0;
  LaunchFull();
  return absl::OkStatus();
}

void Reducer::LaunchFull() {
  while (next_launch_ < buckets_.size() &&
         buckets_[next_launch_].missing == 0) {
    const auto bucket = static_cast<int32_t>(next_launch_++);
    if (!buffers_.lives(bucket)) continue;
    const absl::Status launched = Launch(bucket);
    if (!launched.ok()) {
      // The other ranks must not wait for what will not come, and a level that
      // was launched holds the buffers until its group is broken.
      const int32_t bucket_class =
          plan_.buckets[static_cast<size_t>(bucket)].bucket_class;
      groups_.shards(bucket_class).Abort(launched);
      groups_.replicas(bucket_class).Abort(launched);
    }
    EnqueueSummary(bucket, launched);
  }
}

absl::Status Reducer::Launch(int32_t bucket) {
  const Bucket& layout = plan_.buckets[static_cast<size_t>(bucket)];
  const BucketClass& bucket_class =
      plan_.classes[static_cast<size_t>(layout.bucket_class)];
  const int64_t divisor =
      plan_.divisors[static_cast<size_t>(layout.parameters.front())];
  const LevelScales scales = ScalesOf(bucket_class, divisor);
  const absl::Time begin = runtime_.Now();
  const absl::Time deadline = begin + options_.timeout;
  const auto call = [&](absl::string_view level) {
    return CallOptions{.label = absl::StrCat("bucket ", bucket, " ", level,
                                             " of step ", step_),
                       .deadline = deadline};
  };
  // Each level holds the bucket until it ends, however the others end.
  std::vector<Work>& levels = buckets_[static_cast<size_t>(bucket)].levels;
  levels.clear();
  if (bucket_class.group_size > 1 || scales.shards != 1) {
    std::vector<int64_t> counts;
    for (const Segment& segment : layout.segments) {
      counts.push_back(segment.count);
    }
    absl::StatusOr<Work> reduced =
        groups_.shards(layout.bucket_class)
            .ReduceScatterV(AsConst(buffers_.gradients(bucket)),
                            buffers_.own_gradients(bucket), std::move(counts),
                            Reduction::ScaledSum(scales.shards),
                            call("reduction"));
    if (!reduced.ok()) return reduced.status();
    levels.push_back(*std::move(reduced));
  }
  if (bucket_class.replica_size > 1) {
    CallOptions options = call("reduction over replicas");
    if (!levels.empty()) options.ready.push_back(levels.back().event());
    const MutableBuffer own = buffers_.own_gradients(bucket);
    absl::StatusOr<Work> reduced =
        groups_.replicas(layout.bucket_class)
            .AllReduce(AsConst(own), own, Reduction::ScaledSum(scales.replicas),
                       std::move(options));
    if (!reduced.ok()) return reduced.status();
    levels.push_back(*std::move(reduced));
  }
  if (!levels.empty()) {
    spans_.RecordUntilDone(levels.back(), SpanKind::kReduction, step_, bucket,
                           begin);
  }
  return absl::OkStatus();
}

void Reducer::EnqueueSummary(int32_t bucket, const absl::Status& launched) {
  for (const Work& level : buckets_[static_cast<size_t>(bucket)].levels) {
    compute_.WaitFor(level.event());
  }
  // The stream's own, and not one more share of the caller's: the thread
  // sanitizer does not see shares being counted inside Abseil's library.
  absl::Status own(launched.code(), launched.message());
  compute_.Enqueue([this, bucket, own = std::move(own)](absl::Status upstream) {
    if (upstream.ok()) upstream = own;
    if (upstream.ok()) {
      Summarize(bucket);
    } else if (summary_.failure.ok()) {
      summary_.failure = std::move(upstream);
      summary_.failed_bucket = bucket;
    }
    // The step's decision carries the failure on; the stream goes on clean.
    return absl::OkStatus();
  });
}

void Reducer::Summarize(int32_t bucket) {
  const bool counts = buffers_.counts_in_norm(bucket);
  ExactSum uncounted;
  ExactSum& squared_norm = counts ? summary_.squared_norm : uncounted;
  int64_t& non_finite_count =
      counts ? summary_.non_finite_count : summary_.uncounted_non_finite_count;
  const DataType type = buffers_.gradients(bucket).type;
  for (const Piece& piece : plan_.buckets[static_cast<size_t>(bucket)].pieces) {
    if (piece.owner != buffers_.group_rank(bucket)) continue;
    std::byte* gradient = buffers_.gradient_of(bucket, piece);
    const ParameterSpec& spec =
        plan_.specs[static_cast<size_t>(piece.parameter)];
    if (spec.rule == Rule::kMuon) {
      ClearPadding(MuonUnitOf(spec, piece.rows), type, gradient);
    }
    non_finite_count += AddSquares(type, gradient, piece.count, squared_norm);
  }
}

int64_t Reducer::view_misses() const {
  MutexLock lock(*mutex_);
  return view_misses_;
}

std::vector<Work> Reducer::works() const {
  MutexLock lock(*mutex_);
  std::vector<Work> works;
  for (const BucketState& bucket : buckets_) {
    works.insert(works.end(), bucket.levels.begin(), bucket.levels.end());
  }
  return works;
}

}  // namespace muonshard
