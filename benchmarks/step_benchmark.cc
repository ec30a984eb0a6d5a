// Time of one whole optimizer step, over bucket sizes, ranks and overlap.
//
// Axes       N ranks x KiB of gradients a bucket may hold x overlap (0: every
//            reduction starts in Finish and every gather ends in Step)
// Model      the byte-level GPT that `muonshard train` trains: 4 layers of
//            width 128, 0.9 M elements, f32
// A step     each rank makes its gradients in backward order, one product of
//            [rows, 512] by [512, cols] a matrix, as the weight gradient of a
//            linear layer costs for 512 tokens; checks each in as it is made;
//            then Finish, Step, and a wait for every parameter in forward
//            order
// Reports    time per step, from the first rank's begin to the last rank's end;
//            bytes_per_step = payload that all ranks sent
// Not shown  start-up; a backward that leaves cores idle, which is where
//            overlap pays most

#include <benchmark/benchmark.h>
#include <cblas.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/plugin.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/store.h"
#include "optimizer/shapes/model_shapes.h"
#include "optimizer/sharded_optimizer.h"

namespace muonshard {
namespace {

constexpr int kTokens = 512;
constexpr int64_t kStepsPerBatch = 4;

// One rank: its model, its optimizer, and its share of each step.
class RankModel {
 public:
  static absl::StatusOr<std::unique_ptr<RankModel>> Create(
      Collective& world, const OptimizerOptions& options) {
    auto model = std::make_unique<RankModel>();
    model->specs_ = GptParameters(
        {.layers = 4, .width = 128, .context = 64, .vocabulary = 256});
    const Mesh mesh = *Mesh::Create({{"data", world.size()}});
    absl::StatusOr<std::unique_ptr<ShardedOptimizer>> optimizer =
        ShardedOptimizer::Create(model->specs_, mesh, world, options);
    if (!optimizer.ok()) return optimizer.status();
    model->optimizer_ = *std::move(optimizer);
    for (size_t p = 0; p < model->specs_.size(); ++p) {
      const auto count = static_cast<size_t>(ElementCount(model->specs_[p]));
      model->parameters_.emplace_back(count, 0.01f);
      model->gradients_.emplace_back(count, 1e-3f);
      const absl::Status s = model->optimizer_->BindParameter(
          static_cast<int32_t>(p), model->parameters_[p].data());
      if (!s.ok()) return s;
    }
    model->activations_.assign(size_t{kTokens} * 1024, 0.5f);
    return model;
  }

  absl::Status TakeStep() {
    if (absl::Status s = optimizer_->BeginStep(1); !s.ok()) return s;
    for (size_t p = specs_.size(); p-- > 0;) {
      MakeGradient(p);
      const absl::Status s = optimizer_->GradientReady(
          static_cast<int32_t>(p), gradients_[p].data(),
          ElementCount(specs_[p]), DataType::kF32);
      if (!s.ok()) return s;
    }
    absl::StatusOr<ReducedGradients> reduced = optimizer_->Finish();
    if (!reduced.ok()) return reduced.status();
    if (absl::Status s = optimizer_->Step(*std::move(reduced), {}); !s.ok()) {
      return s;
    }
    for (size_t p = 0; p < specs_.size(); ++p) {
      const absl::Status s =
          optimizer_->WaitForParameters(static_cast<int32_t>(p));
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  const ShardedOptimizer& optimizer() const { return *optimizer_; }

 private:
  void MakeGradient(size_t p) {
    const std::vector<int64_t>& shape = specs_[p].shape;
    if (shape.size() != 2 || shape[0] > 1024 || shape[1] > 1024) return;
    const auto rows = static_cast<int>(shape[0]);
    const auto cols = static_cast<int>(shape[1]);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, rows, cols, kTokens,
                1e-4f, activations_.data(), rows, activations_.data(), cols,
                0.0f, gradients_[p].data(), cols);
  }

  std::vector<ParameterSpec> specs_;
  std::vector<std::vector<float>> parameters_;
  std::vector<std::vector<float>> gradients_;
  std::vector<float> activations_;
  // Reads the parameters, so it goes first.
  std::unique_ptr<ShardedOptimizer> optimizer_;
};

// All ranks of a loopback group, made once and stepped many times.
class Ranks {
 public:
  absl::Status Start(int32_t size, const OptimizerOptions& options) {
    runtime_ = NewThreadsRuntime();
    store_ = NewInProcessStore(*runtime_);
    absl::StatusOr<std::unique_ptr<Plugin>> plugin =
        Plugin::Open(PluginSearchFromEnvironment("", ""), *runtime_);
    if (!plugin.ok()) return plugin.status();
    plugin_ = *std::move(plugin);
    worlds_.resize(static_cast<size_t>(size));
    models_.resize(static_cast<size_t>(size));
    return OnEveryRank([&](Rank rank) {
      const auto r = static_cast<size_t>(ToInt(rank));
      absl::StatusOr<std::unique_ptr<Collective>> world =
          plugin_->NewGroup({.rank = rank,
                             .size = size,
                             .name = "world",
                             .deadline = runtime_->Now() + absl::Minutes(1),
                             .store = store_.get()});
      if (!world.ok()) return world.status();
      worlds_[r] = *std::move(world);
      absl::StatusOr<std::unique_ptr<RankModel>> model =
          RankModel::Create(*worlds_[r], options);
      if (!model.ok()) return model.status();
      models_[r] = *std::move(model);
      return absl::OkStatus();
    });
  }

  absl::Status TakeSteps(int64_t count) {
    return OnEveryRank([&](Rank rank) {
      for (int64_t i = 0; i < count; ++i) {
        const absl::Status s =
            models_[static_cast<size_t>(ToInt(rank))]->TakeStep();
        if (!s.ok()) return s;
      }
      return absl::OkStatus();
    });
  }

  absl::StatusOr<uint64_t> BytesSent() const {
    uint64_t sum = 0;
    for (const auto& model : models_) {
      absl::StatusOr<OptimizerStatistics> statistics =
          model->optimizer().Statistics();
      if (!statistics.ok()) return statistics.status();
      sum += statistics->bucket_bytes_sent + statistics->control_bytes_sent;
    }
    return sum;
  }

 private:
  absl::Status OnEveryRank(const std::function<absl::Status(Rank)>& program) {
    for (const absl::Status& s :
         RunRanks(*runtime_, static_cast<int32_t>(worlds_.size()), program)) {
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Plugin> plugin_;
  std::vector<std::unique_ptr<Collective>> worlds_;
  std::vector<std::unique_ptr<RankModel>> models_;
};

void BM_Step(benchmark::State& state) {
  OptimizerOptions options;
  options.plan.bucket_bytes_max = state.range(1) << 10;
  options.overlap = state.range(2) != 0;
  Ranks ranks;
  absl::Status s = ranks.Start(static_cast<int32_t>(state.range(0)), options);
  if (s.ok()) s = ranks.TakeSteps(1);
  const absl::StatusOr<uint64_t> before = ranks.BytesSent();
  int64_t steps = 0;
  while (s.ok() && state.KeepRunningBatch(kStepsPerBatch)) {
    s = ranks.TakeSteps(kStepsPerBatch);
    steps += kStepsPerBatch;
  }
  const absl::StatusOr<uint64_t> after = ranks.BytesSent();
  if (!s.ok() || !before.ok() || !after.ok()) {
    state.SkipWithError(s.ToString().c_str());
    return;
  }
  state.counters["bytes_per_step"] = benchmark::Counter(
      static_cast<double>(*after - *before) / static_cast<double>(steps));
}
BENCHMARK(BM_Step)
    ->ArgNames({"N", "KiB", "overlap"})
    ->ArgsProduct({{1, 2, 4, 8}, {64, 256, 1024, 25 << 10}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace muonshard
