#include "testing/sharded_run.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/plugin.h"
#include "collectives/runtime/runtime.h"
#include "collectives/work.h"
#include "optimizer/compute/convert.h"
#include "testing/seeded_random.h"
#include "testing/sharded_case.h"

namespace muonshard::testing {
namespace {

// What a rank hands over for one parameter in one step.
struct CallerGradient {
  ParameterBytes sum;  // Of kCopyLast, and of kView without a view.
  std::byte* view = nullptr;
  int32_t check_ins = 0;
};

absl::Status CheckIn(const ParameterSpec& spec, int32_t p,
                     const ParameterBytes& fresh, CallerGradient& gradient,
                     ShardedOptimizer& optimizer) {
  const int64_t count = ElementCount(spec);
  const DataType type = spec.gradient_dtype;
  if (spec.gradient_mode == GradientMode::kAccumulate) {
    return optimizer.GradientReady(p, fresh.data(), count, type);
  }
  if (gradient.view != nullptr) {
    AddGradient(type, fresh, gradient.view);
    return optimizer.GradientReady(p, gradient.view, count, type);
  }
  if (gradient.sum.empty()) gradient.sum.resize(fresh.size());
  AddGradient(type, fresh, gradient.sum.data());
  return optimizer.GradientReady(p, gradient.sum.data(), count, type);
}

// Calls `check_in` for all of `order`, which so many tasks share, and returns
// the first error of one.
absl::Status CheckInAll(Runtime& runtime, int32_t task_count,
                        const std::vector<int32_t>& order,
                        const std::function<absl::Status(int32_t)>& check_in) {
  const auto stride = static_cast<size_t>(task_count);
  std::vector<absl::Status> results(stride);
  const auto share = [&](size_t first) {
    for (size_t i = first; i < order.size() && results[first].ok();
         i += stride) {
      results[first] = check_in(order[i]);
    }
  };
  std::vector<std::unique_ptr<Task>> tasks;
  for (size_t first = 1; first < stride; ++first) {
    tasks.push_back(runtime.Start(absl::StrCat("hooks ", first),
                                  TaskKind::kProgram,
                                  [&share, first] { share(first); }));
  }
  share(0);
  for (const std::unique_ptr<Task>& task : tasks) task->Join();
  for (const absl::Status& result : results) {
    if (!result.ok()) return result;
  }
  return absl::OkStatus();
}

template <typename T>
void Append(std::span<const T> values, ParameterBytes& bytes) {
  const auto added = std::as_bytes(values);
  bytes.insert(bytes.end(), added.begin(), added.end());
}

ParameterBytes BytesOf(const ParameterState& state) {
  ParameterBytes bytes;
  Append(std::span(&state.step_count, 1), bytes);
  for (const StatePiece& piece : state.pieces) {
    for (const std::span<const float> values :
         {piece.first, piece.second, piece.master, piece.row_moments}) {
      Append(values, bytes);
    }
  }
  return bytes;
}

// How many operations of `rank` there have been; 0 if the plugin does not tell.
int64_t OperationCount(const Plugin& plugin, Rank rank) {
  const absl::StatusOr<std::string> report = plugin.Report();
  return report.ok() ? OperationCountIn(*report, rank) : 0;
}

// One rank's part of a run.
class RankProgram {
 public:
  RankProgram(const ShardedCase& sharded, const ShardedRunOptions& options,
              RankContext& context, ShardedRun& run)
      : sharded_(sharded),
        options_(options),
        context_(context),
        r_(static_cast<size_t>(ToInt(context.rank))),
        run_(run) {}

  absl::Status Run() {
    if (absl::Status s = Begin(); !s.ok()) return s;
    absl::StatusOr<GradScaler> scaler =
        GradScaler::Create(sharded_.scaler.value_or(GradScalerOptions()));
    if (!scaler.ok()) return scaler.status();
    if (options_.before_steps) {
      absl::Status s = options_.before_steps(context_.rank, run_.parameters[r_],
                                             *scaler, *optimizer_);
      if (!s.ok()) return s;
    }
    run_.operations[r_].begin = OperationCount(context_.plugin, context_.rank);
    absl::Status ended;
    do {
      while (last_step() < sharded_.steps) {
        const absl::StatusOr<StepOutcome> outcome =
            OneStep(last_step() + 1,
                    sharded_.scaler.has_value() ? scaler->scale() : 1.0);
        if (!outcome.ok() && sharded_.recovers) {
          const absl::Status s = Recover(outcome.status(), *scaler);
          if (!s.ok()) return s;
          continue;
        }
        Note(outcome, *scaler);
        if (!outcome.ok() && !sharded_.goes_on_after_errors) {
          return outcome.status();
        }
        if (!outcome.ok() || !options_.after_step) continue;
        absl::Status s = optimizer_->WaitForParameters();
        if (s.ok()) {
          s = options_.after_step(context_.rank, last_step(),
                                  run_.parameters[r_], *scaler, *optimizer_);
        }
        if (!s.ok()) return s;
      }
      ended = End();
      if (ended.ok() || !sharded_.recovers) break;
      ended = Recover(ended, *scaler);
    } while (ended.ok());
    // The error of a failed step has been noted.
    const std::vector<absl::Status>& steps = run_.step_results[r_];
    const bool last_failed = !steps.empty() && !steps.back().ok();
    if (!ended.ok() && !last_failed) return ended;
    return Report(*scaler);
  }

 private:
  absl::Status Begin() {
    absl::StatusOr<Mesh> mesh = Mesh::Parse(sharded_.mesh);
    if (!mesh.ok()) return mesh.status();
    OptimizerEnvironment environment;
    if (!sharded_.hosts.empty()) environment.host_id = sharded_.hosts[r_];
    auto optimizer =
        ShardedOptimizer::Create(sharded_.specs, *mesh, *context_.world,
                                 sharded_.options, std::move(environment));
    if (!optimizer.ok()) return optimizer.status();
    optimizer_ = *std::move(optimizer);
    std::vector<ParameterBytes>& parameters = run_.parameters[r_];
    parameters.resize(sharded_.specs.size());
    for (size_t p = 0; p < parameters.size(); ++p) {
      if (!LivesOn(sharded_.specs[p], *mesh, context_.rank)) continue;
      const auto index = static_cast<int32_t>(p);
      parameters[p] = FirstValuesOf(sharded_, *mesh, context_.rank, index);
      const absl::Status s =
          optimizer_->BindParameter(index, parameters[p].data());
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<StepOutcome> OneStep(int64_t step, double loss_scale) {
    absl::Status s =
        TakeStep(sharded_, *context_.world, step, *optimizer_, loss_scale);
    if (!s.ok()) return s;
    absl::StatusOr<StepOutcome> outcome = optimizer_->Outcome();
    if (!outcome.ok()) return outcome.status();
    // What is gathered eagerly has come. What is not waited for here is by the
    // next BeginStep.
    if (sharded_.options.gather == GatherMode::kEager || step % 3 == 1) {
      return outcome;
    }
    for (size_t p = 0; p < sharded_.specs.size(); ++p) {
      s = step % 3 == 2 ? optimizer_->WaitForParameters(static_cast<int32_t>(p))
                        : optimizer_->WaitForParameters(sharded_.specs[p].name);
      if (!s.ok()) return s;
    }
    return outcome;
  }

  int64_t last_step() const {
    return options_.first_step - 1 +
           static_cast<int64_t>(run_.step_results[r_].size());
  }

  void Note(const absl::StatusOr<StepOutcome>& outcome, GradScaler& scaler) {
    if (outcome.ok()) scaler.Update(*outcome);
    run_.step_results[r_].push_back(outcome.status());
    run_.outcomes[r_].push_back(outcome.value_or(StepOutcome()));
  }

  absl::Status End() {
    const absl::Status s = optimizer_->Synchronize();
    run_.operations[r_].end = OperationCount(context_.plugin, context_.rank);
    if (!s.ok() || !sharded_.recovers) return s;
    // A rank that has ended cannot help one whose last gather failed.
    return AwaitEnd(context_.world->Barrier(
        {.deadline = context_.runtime.Now() + sharded_.options.timeout}));
  }

  absl::Status Recover(const absl::Status& error, GradScaler& scaler) {
    absl::Status cause = error;
    run_.failures[r_].push_back(error);
    for (int32_t attempt = 0; attempt < kRecoveryAttempts; ++attempt) {
      // The others may not have seen it yet.
      context_.world->Abort(cause);
      absl::StatusOr<std::unique_ptr<Collective>> fresh =
          context_.plugin.NewGroup(
              {.rank = context_.rank,
               .size = context_.world->size(),
               .name = absl::StrCat("world/", ++run_.recoveries[r_]),
               .deadline = GuardDeadline(context_.runtime),
               .store = &context_.store});
      if (!fresh.ok()) return fresh.status();
      retired_.push_back(std::move(context_.world));
      context_.world = *std::move(fresh);
      absl::StatusOr<ShardedOptimizer::Resynced> resynced =
          ShardedOptimizer::Resync(*optimizer_, *context_.world);
      if (!resynced.ok()) {
        cause = resynced.status();
        run_.failures[r_].push_back(cause);
        continue;
      }
      optimizer_ = std::move(resynced->optimizer);
      const int64_t last = resynced->last.step;
      if (last == last_step() + 1) Note(optimizer_->Outcome(), scaler);
      if (last == last_step()) return absl::OkStatus();
      return absl::InternalError(
          absl::StrCat("rank ", r_, ": want step ", last_step(),
                       " or the next as the last that counts, got ", last));
    }
    return cause;
  }

  absl::Status Report(const GradScaler& scaler) {
    run_.scalers[r_] = scaler.state();
    absl::StatusOr<OptimizerStatistics> statistics = optimizer_->Statistics();
    if (!statistics.ok()) return statistics.status();
    run_.statistics[r_] = *statistics;
    for (size_t p = 0; p < sharded_.specs.size(); ++p) {
      const auto state = optimizer_->State(static_cast<int32_t>(p));
      if (!state.ok()) return state.status();
      run_.states[r_].push_back(BytesOf(*state));
    }
    return absl::OkStatus();
  }

  static constexpr int32_t kRecoveryAttempts = 4;

  const ShardedCase& sharded_;
  const ShardedRunOptions& options_;
  RankContext& context_;
  const size_t r_;
  ShardedRun& run_;
  // Broken; they outlive the optimizer.
  std::vector<std::unique_ptr<Collective>> retired_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
};

}  // namespace

absl::Status TakeStep(const ShardedCase& sharded, Collective& world,
                      int64_t step, ShardedOptimizer& optimizer,
                      double loss_scale) {
  if (absl::Status s = optimizer.BeginStep(sharded.micro_batches); !s.ok()) {
    return s;
  }
  absl::StatusOr<Mesh> mesh = Mesh::Parse(sharded.mesh);
  if (!mesh.ok()) return mesh.status();
  const Rank rank = world.rank();
  std::vector<CallerGradient> gradients(sharded.specs.size());
  std::vector<int32_t> order;
  for (size_t p = 0; p < gradients.size(); ++p) {
    if (!LivesOn(sharded.specs[p], *mesh, rank)) continue;
    const auto index = static_cast<int32_t>(p);
    gradients[p].view = static_cast<std::byte*>(optimizer.GradientView(index));
    gradients[p].check_ins = CheckInCountOf(sharded, rank, index, step);
    order.push_back(index);
  }
  SeededRandom random(sharded.seed + 2);
  random.Mix(static_cast<uint64_t>(ToInt(rank)));
  random.Mix(static_cast<uint64_t>(step));
  // A kSyncOnly parameter may check in once more than there are micro-batches.
  for (int32_t m = 0; m <= sharded.micro_batches; ++m) {
    random.Shuffle(order);
    const auto check_in = [&](int32_t p) -> absl::Status {
      CallerGradient& gradient = gradients[static_cast<size_t>(p)];
      if (m >= gradient.check_ins) return absl::OkStatus();
      return CheckIn(sharded.specs[static_cast<size_t>(p)], p,
                     GradientOf(sharded, rank, p, step, m, loss_scale),
                     gradient, optimizer);
    };
    const absl::Status s =
        CheckInAll(world.runtime(), sharded.hook_tasks, order, check_in);
    if (!s.ok()) return s;
  }
  for (const ExtraCheckIn& extra : sharded.extra_check_ins) {
    if (extra.rank != rank || extra.step != step) continue;
    const auto p = static_cast<size_t>(extra.parameter);
    // A hook has nobody to give the error to.
    (void)CheckIn(sharded.specs[p], extra.parameter,
                  GradientOf(sharded, rank, extra.parameter, step, 0),
                  gradients[p], optimizer);
  }
  absl::StatusOr<ReducedGradients> reduced = optimizer.Finish();
  if (!reduced.ok()) return reduced.status();
  StepOptions options;
  if (sharded.step_options) options = sharded.step_options(step);
  options.clip_norm = sharded.clip_norm;
  options.loss_scale = loss_scale;
  return optimizer.Step(*std::move(reduced), options);
}

ShardedRun RunSharded(const ShardedCase& sharded, const RuntimeCase& runtime,
                      const ShardedRunOptions& options) {
  ShardedRun run;
  absl::StatusOr<Mesh> mesh = Mesh::Parse(sharded.mesh);
  if (!mesh.ok()) {
    run.results.push_back(mesh.status());
    return run;
  }
  const auto size = static_cast<size_t>(mesh->size());
  run.parameters.resize(size);
  run.outcomes.resize(size);
  run.step_results.resize(size);
  run.states.resize(size);
  run.recoveries.resize(size);
  run.failures.resize(size);
  run.operations.resize(size);
  run.statistics.resize(size);
  run.scalers.resize(size);
  const RankRunOptions rank_options = {
      .runtime = runtime,
      .size = mesh->size(),
      .plugin_options = options.plugin_options};
  RankRun ranks = RunOnRanks(rank_options, [&](RankContext& context) {
    return RankProgram(sharded, options, context, run).Run();
  });
  run.plugin_report = std::move(ranks.plugin_report);
  run.results = std::move(ranks.results);
  run.ended = std::move(ranks.ended);
  run.trace_hash = ranks.trace_hash;
  run.choice_count = ranks.choice_count;
  run.simulated = ranks.simulated;
  return run;
}

}  // namespace muonshard::testing
