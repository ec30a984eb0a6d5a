#include "tools/trainer/rank_trainer.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/data_type.h"
#include "optimizer/grad_scaler.h"
#include "optimizer/plan_report.h"
#include "optimizer/sharded_optimizer.h"
#include "tools/trainer/byte_hash.h"
#include "tools/trainer/gpt_model.h"
#include "tools/trainer/model_placement.h"
#include "tools/trainer/progress.h"
#include "tools/trainer/rank_exchange.h"
#include "tools/trainer/rank_gather.h"

namespace muonshard {
namespace {

class RankTrainer {
 public:
  RankTrainer(TrainRun& run, Rank rank) : run_(run), rank_(rank) {}

  absl::Status Run();

 private:
  absl::Status SetUp();
  absl::Status JoinGroups();
  absl::Status JoinExperts();
  absl::Status CheckPromises() const;
  absl::Status MakeOptimizer();
  absl::Status MakeModel();
  absl::Status TrainAll();
  absl::Status TrainStep(int64_t step);
  absl::Status RunMicroBatch(int64_t step, int32_t micro_batch);
  absl::Status NoteOutcome();
  absl::Status OnGradient(const GradientArrival& arrival);
  absl::Status EvaluateHeldOut(std::vector<double>& losses);
  absl::Status Collect();
  absl::Status HandOver();
  absl::Status ShowProgress(int64_t step, bool is_last);
  // What the losses of this step are multiplied by.
  double LossScale() const {
    return scaler_.has_value() ? scaler_->scale() : 1;
  }

  TrainRun& run_;
  const Rank rank_;
  RankResult result_;
  std::unique_ptr<Collective> world_;
  // The ranks that share the experts, if they are several.
  std::unique_ptr<Collective> experts_;
  // Null unless ranks are processes.
  std::unique_ptr<RankExchange> exchange_;
  // Outlives the optimizer, whose last updates may still read its parameters.
  std::unique_ptr<GptModel> model_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
  std::optional<GradScaler> scaler_;
  OptimizerStatistics start_up_;  // What creation alone has sent.
  int64_t step_ = 0;              // From 1, of the backward under way.
  double loss_sum_ = 0;
};

absl::Status RankTrainer::Run() {
  absl::Status status = SetUp();
  if (status.ok()) status = TrainAll();
  if (status.ok()) status = HandOver();
  if (status.ok()) return absl::OkStatus();
  if (exchange_ != nullptr) exchange_->Abort(status);
  if (experts_ != nullptr) experts_->Abort(status);
  if (world_ != nullptr) world_->Abort(status);
  return status;
}

absl::Status RankTrainer::SetUp() {
  if (absl::Status s = JoinGroups(); !s.ok()) return s;
  if (absl::Status s = CheckPromises(); !s.ok()) return s;
  if (absl::Status s = MakeOptimizer(); !s.ok()) return s;
  if (absl::Status s = MakeModel(); !s.ok()) return s;
  if (!run_.options.scaler) return absl::OkStatus();
  absl::StatusOr<GradScaler> scaler =
      GradScaler::Create(run_.options.scaler_options);
  if (!scaler.ok()) return scaler.status();
  scaler_ = *std::move(scaler);
  return absl::OkStatus();
}

absl::Status RankTrainer::JoinGroups() {
  GroupConfig config;
  config.rank = rank_;
  config.size = run_.options.ranks;
  config.deadline = run_.runtime.Now() + run_.optimizer_options.timeout;
  config.store = &run_.store;
  absl::StatusOr<std::unique_ptr<Collective>> world =
      run_.plugin.NewGroup(config);
  if (!world.ok()) return world.status();
  world_ = *std::move(world);
  if (run_.is_process) {
    absl::StatusOr<std::unique_ptr<RankExchange>> exchange =
        RankExchange::Create(*world_, run_.store,
                             run_.optimizer_options.timeout);
    if (!exchange.ok()) return exchange.status();
    exchange_ = *std::move(exchange);
  }
  return JoinExperts();
}

absl::Status RankTrainer::JoinExperts() {
  const ExpertPlace place = ExpertPlaceOf(run_.options.shape, run_.mesh, rank_);
  if (place.count == 1) return absl::OkStatus();
  const absl::StatusOr<int> axis = run_.mesh.AxisIndex(kExpertAxis);
  if (!axis.ok()) return axis.status();
  // A group is known by its first rank.
  const Rank first = run_.mesh.GroupOf(rank_, std::array{*axis}).front();
  absl::StatusOr<std::unique_ptr<Collective>> experts =
      world_->Split(ToInt(first), place.index, "experts",
                    run_.runtime.Now() + run_.optimizer_options.timeout);
  if (!experts.ok()) return experts.status();
  experts_ = *std::move(experts);
  return absl::OkStatus();
}

absl::Status RankTrainer::MakeOptimizer() {
  OptimizerEnvironment environment;
  environment.trace = run_.meter.SinkOf(ToInt(rank_));
  environment.host_id = run_.host_ids[static_cast<size_t>(ToInt(rank_))];
  absl::StatusOr<std::unique_ptr<ShardedOptimizer>> optimizer =
      ShardedOptimizer::Create(run_.specs, run_.mesh, *world_,
                               run_.optimizer_options, std::move(environment));
  if (!optimizer.ok()) return optimizer.status();
  optimizer_ = *std::move(optimizer);
  const absl::StatusOr<OptimizerStatistics> start_up = optimizer_->Statistics();
  if (!start_up.ok()) return start_up.status();
  start_up_ = *start_up;
  return absl::OkStatus();
}

absl::Status RankTrainer::MakeModel() {
  const ExpertPlace place = ExpertPlaceOf(run_.options.shape, run_.mesh, rank_);
  GptModelConfig config;
  config.shape = run_.options.shape;
  config.specs = run_.specs;
  for (size_t p = 0; p < run_.specs.size(); ++p) {
    config.first_values.push_back(
        FirstValuesAt(run_.specs[p], run_.initial_values[p], place));
  }
  config.callbacks.before_use = [this](int32_t parameter) {
    return optimizer_->WaitForParameters(parameter);
  };
  config.callbacks.on_gradient = [this](const GradientArrival& arrival) {
    return OnGradient(arrival);
  };
  config.expert_group = experts_.get();
  config.timeout = run_.optimizer_options.timeout;
  absl::StatusOr<std::unique_ptr<GptModel>> model =
      GptModel::Create(std::move(config));
  if (!model.ok()) return model.status();
  model_ = *std::move(model);
  for (int32_t p = 0; p < model_->parameter_count(); ++p) {
    if (absl::Status s =
            optimizer_->BindParameter(p, model_->parameter(p).data());
        !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

absl::Status RankTrainer::CheckPromises() const {
  const Capabilities& promised = world_->capabilities();
  if (run_.verifier != nullptr && !promised.canonical) {
    return absl::FailedPreconditionError(
        absl::StrCat("--verify: want a plugin that promises canonical results, "
                     "got \"",
                     run_.plugin.name(), "\", which does not"));
  }
  if (run_.options.deterministic && !promised.canonical &&
      !promised.repeatable) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--deterministic=on: want a plugin that promises canonical "
        "or repeatable results, got \"",
        run_.plugin.name(), "\", which does not"));
  }
  return absl::OkStatus();
}

absl::Status RankTrainer::TrainAll() {
  if (absl::Status s = EvaluateHeldOut(result_.held_out_first); !s.ok()) {
    return s;
  }
  result_.training_begin = run_.runtime.Now();
  for (int64_t step = 1; step <= run_.options.steps; ++step) {
    if (absl::Status s = TrainStep(step); !s.ok()) return s;
  }
  if (absl::Status s = NoteOutcome(); !s.ok()) return s;
  if (absl::Status s = optimizer_->Synchronize(); !s.ok()) return s;
  result_.training_end = run_.runtime.Now();
  if (absl::Status s = EvaluateHeldOut(result_.held_out_last); !s.ok()) {
    return s;
  }
  return Collect();
}

absl::Status RankTrainer::TrainStep(int64_t step) {
  const absl::Time begin = run_.runtime.Now();
  step_ = step;
  loss_sum_ = 0;
  for (int32_t m = 0; m < run_.options.micro_batches; ++m) {
    if (absl::Status s = RunMicroBatch(step, m); !s.ok()) return s;
  }
  if (run_.verifier != nullptr) {
    const absl::Status ended =
        exchange_ == nullptr
            ? run_.verifier->EndBackward(rank_, step, LossScale())
            : GatherBackward(rank_, step, LossScale(), *exchange_,
                             *run_.verifier);
    if (!ended.ok()) return ended;
  }
  const absl::Time finish_begin = run_.runtime.Now();
  absl::StatusOr<ReducedGradients> reduced = optimizer_->Finish();
  if (!reduced.ok()) return reduced.status();
  StepOptions step_options;
  step_options.clip_norm = run_.options.clip_norm;
  step_options.loss_scale = LossScale();
  if (absl::Status s = optimizer_->Step(*std::move(reduced), step_options);
      !s.ok()) {
    return s;
  }
  model_->DropGradients();
  const absl::Time end = run_.runtime.Now();
  run_.meter.AddProgramSpan(
      {ProgramPhase::kFinish, ToInt(rank_), step, 0, finish_begin, end});
  const bool is_last = run_.meter.EndStep(
      ToInt(rank_), step, loss_sum_ / run_.options.micro_batches, end - begin);
  return ShowProgress(step, is_last);
}

absl::Status RankTrainer::RunMicroBatch(int64_t step, int32_t micro_batch) {
  const TokenBatch batch = run_.data.DrawBatch(
      {run_.options.seed, static_cast<uint64_t>(step),
       static_cast<uint64_t>(ToInt(rank_)), static_cast<uint64_t>(micro_batch)},
      run_.options.sequences);
  const absl::Time forward_begin = run_.runtime.Now();
  const absl::StatusOr<double> loss = model_->Forward(batch);
  if (!loss.ok()) return loss.status();
  loss_sum_ += *loss;
  const absl::Time forward_end = run_.runtime.Now();
  if (micro_batch == 0) {
    if (step > 1) {
      if (absl::Status s = NoteOutcome(); !s.ok()) return s;
    }
    if (absl::Status s = optimizer_->BeginStep(run_.options.micro_batches);
        !s.ok()) {
      return s;
    }
  }
  const absl::Time backward_begin = run_.runtime.Now();
  if (absl::Status s =
          model_->Backward(LossScale() / run_.options.micro_batches);
      !s.ok()) {
    return s;
  }
  run_.meter.AddProgramSpan({ProgramPhase::kForward, ToInt(rank_), step,
                             micro_batch, forward_begin, forward_end});
  run_.meter.AddProgramSpan({ProgramPhase::kBackward, ToInt(rank_), step,
                             micro_batch, backward_begin, run_.runtime.Now()});
  return absl::OkStatus();
}

absl::Status RankTrainer::NoteOutcome() {
  const absl::StatusOr<StepOutcome> outcome = optimizer_->Outcome();
  if (!outcome.ok()) return outcome.status();
  if (!outcome->updated) ++result_.skipped_steps;
  if (scaler_.has_value()) scaler_->Update(*outcome);
  return absl::OkStatus();
}

absl::Status RankTrainer::OnGradient(const GradientArrival& arrival) {
  if (run_.verifier != nullptr) {
    run_.verifier->Deposit(rank_, step_, arrival.parameter, arrival.own);
  }
  std::span<const std::byte> gradient = arrival.accumulated;
  std::vector<std::byte> faulty;
  if (run_.options.fault_for_test != nullptr) {
    faulty.assign(gradient.begin(), gradient.end());
    if (absl::Status s = run_.options.fault_for_test(ToInt(rank_), step_,
                                                     arrival.parameter, faulty);
        !s.ok()) {
      return s;
    }
    gradient = faulty;
  }
  const DataType type =
      run_.specs[static_cast<size_t>(arrival.parameter)].gradient_dtype;
  return optimizer_->GradientReady(
      arrival.parameter, gradient.data(),
      static_cast<int64_t>(gradient.size() / ByteWidth(type)), type);
}

absl::Status RankTrainer::EvaluateHeldOut(std::vector<double>& losses) {
  losses.assign(kHeldOutBatches, 0);
  for (int64_t first = 0; first < kHeldOutBatches;
       first += run_.options.ranks) {
    const int64_t b = first + ToInt(rank_);
    const bool own = b < kHeldOutBatches;
    // A forward with shared experts takes part in those of other ranks, so that
    // all take the same number.
    if (!own && experts_ == nullptr) break;
    const int64_t batch = own ? b : 0;
    const absl::StatusOr<double> loss = model_->Loss(
        run_.data.HeldOutBatch(batch * kHeldOutSequences, kHeldOutSequences,
                               kHeldOutBatches * kHeldOutSequences));
    if (!loss.ok()) return loss.status();
    if (own) losses[static_cast<size_t>(b)] = *loss;
  }
  return absl::OkStatus();
}

absl::Status RankTrainer::Collect() {
  const absl::StatusOr<OptimizerStatistics> statistics =
      optimizer_->Statistics();
  if (!statistics.ok()) return statistics.status();
  const Plan& plan = optimizer_->plan();
  const RankLoad& load = plan.rank_load[static_cast<size_t>(ToInt(rank_))];
  result_.bytes = {
      statistics->bucket_bytes_sent - start_up_.bucket_bytes_sent,
      statistics->control_bytes_sent - start_up_.control_bytes_sent,
      load.reduce_bytes + load.gather_bytes + load.replicate_bytes};
  result_.imbalance = plan.imbalance();
  result_.padding_fraction = plan.padding_fraction;
  result_.bucket_count = static_cast<int64_t>(plan.buckets.size());
  if (rank_ == Rank{0}) result_.plan_report = PlanReport(plan);
  result_.loss_scale = LossScale();
  result_.expert_positions = model_->expert_positions();
  result_.parameter_hash = kByteHashStart;
  for (int32_t p = 0; p < model_->parameter_count(); ++p) {
    result_.parameter_hash =
        HashBytes(result_.parameter_hash, model_->parameter(p));
    if (run_.verifier == nullptr) continue;
    run_.verifier->Compare(rank_, p, model_->parameter(p), result_.difference);
  }
  return absl::OkStatus();
}

absl::Status RankTrainer::HandOver() {
  if (exchange_ == nullptr) {
    run_.results[static_cast<size_t>(ToInt(rank_))] = std::move(result_);
    return absl::OkStatus();
  }
  const int64_t steps = run_.options.steps;
  const int64_t shown =
      (steps - 1) / run_.options.interval * run_.options.interval;
  absl::Status status =
      GatherSteps(shown, steps, rank_, *exchange_, run_.meter);
  if (!status.ok()) return status;
  status = GatherResults(result_, *exchange_, run_.results);
  if (!status.ok()) return status;
  return exchange_->CheckGathered();
}

// `is_last`: all ranks of this process have ended the step.
absl::Status RankTrainer::ShowProgress(int64_t step, bool is_last) {
  // The update of `step` may still be under way; that of the step before was
  // complete when this step's forward had used every parameter.
  const int64_t complete = step - 1;
  if (complete == 0 || complete % run_.options.interval != 0) {
    return absl::OkStatus();
  }
  const int64_t first = complete - run_.options.interval;
  if (exchange_ != nullptr) {
    const absl::Status gathered =
        GatherSteps(first, complete, rank_, *exchange_, run_.meter);
    if (!gathered.ok()) return gathered;
  } else if (!is_last) {
    return absl::OkStatus();
  }
  run_.show(ProgressLine(run_.options, run_.meter, first, complete,
                         {LossScale(), result_.skipped_steps}));
  return absl::OkStatus();
}

}  // namespace

absl::Status TrainOneRank(TrainRun& run, Rank rank) {
  return RankTrainer(run, rank).Run();
}

}  // namespace muonshard
