#include <cstddef>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/unsharded/unsharded_optimizer.h"
#include "testing/pipeline/pipeline_model.h"
#include "testing/pipeline/pipeline_run.h"
#include "testing/pipeline/small_mlp.h"

namespace muonshard::testing {
namespace {

std::vector<std::byte> BytesOf(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::span<const float> FloatsOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()),
          bytes.size() / sizeof(float)};
}

// The model as one: a parameter that lives apart is one entry per stage.
class WholeModel {
 public:
  explicit WholeModel(const PipelineCase& pipeline)
      : pipeline_(pipeline),
        mesh_(*Mesh::Parse(pipeline.mesh)),
        place_(PlaceInPipeline(pipeline, mesh_, Rank{0})),
        index_{.chunks = pipeline.chunks},
        specs_(PipelineSpecs(pipeline)) {}

  absl::StatusOr<PipelineRun> Run();

 private:
  size_t Stages() const { return static_cast<size_t>(place_.shape.stages); }
  // The entry of parameter `p` on `stage`.
  size_t EntryOf(int32_t p, size_t stage) const {
    if (p == index_.embedding()) return 0;
    return 1 + static_cast<size_t>(p - 1) * Stages() + stage;
  }
  size_t EntryCount() const { return 1 + (specs_.size() - 1) * Stages(); }
  std::span<const float> Values(int32_t p, size_t stage) const {
    return FloatsOf(optimizer_->parameter(EntryOf(p, stage)));
  }

  absl::Status Create();
  absl::StatusOr<StepOutcome> TakeStep(int64_t step);
  // One micro-batch of one data coordinate, forward and backward.
  void Train(size_t data_rank, int64_t step, int32_t micro_batch);
  // Keeps a gradient for the fold. `copy` is which copy of the parameter gave
  // it.
  void Keep(size_t entry, size_t copy, size_t data_rank,
            std::vector<float> gradient);

  const PipelineCase& pipeline_;
  const Mesh mesh_;
  const PipelinePlace place_;
  const PipelineIndices index_;
  const std::vector<ParameterSpec> specs_;
  std::optional<UnshardedOptimizer> optimizer_;
  // Of the step under way: [entry][copy][data rank][micro-batch].
  std::vector<std::vector<std::vector<std::vector<std::vector<float>>>>> kept_;
};

absl::Status WholeModel::Create() {
  std::vector<ParameterSpec> specs(EntryCount());
  std::vector<std::vector<std::byte>> values(EntryCount());
  for (size_t i = 0; i < specs_.size(); ++i) {
    const auto p = static_cast<int32_t>(i);
    for (size_t stage = 0; stage < Stages(); ++stage) {
      const size_t entry = EntryOf(p, stage);
      specs[entry] = specs_[i];
      specs[entry].name = absl::StrCat(specs_[i].name, "@", entry);
      values[entry] = BytesOf(
          FirstPipelineValues(pipeline_, p, static_cast<int32_t>(stage)));
      // The head's bias is not on the earlier stages.
      if (p == index_.head_bias()) {
        specs[entry].absent_gradient = AbsentGradient::kSkip;
      }
    }
  }
  absl::StatusOr<UnshardedOptimizer> optimizer = UnshardedOptimizer::Create(
      specs, pipeline_.options,
      std::vector<int64_t>(EntryCount(), place_.data_size), values);
  if (!optimizer.ok()) return optimizer.status();
  optimizer_.emplace(*std::move(optimizer));
  return absl::OkStatus();
}

void WholeModel::Keep(size_t entry, size_t copy, size_t data_rank,
                      std::vector<float> gradient) {
  kept_[entry].resize(std::max(kept_[entry].size(), copy + 1));
  auto& ranks = kept_[entry][copy];
  ranks.resize(static_cast<size_t>(place_.data_size));
  ranks[data_rank].push_back(std::move(gradient));
}

void WholeModel::Train(size_t data_rank, int64_t step, int32_t micro_batch) {
  const MlpBatch batch = MakeMlpBatch(
      pipeline_.seed, static_cast<int32_t>(data_rank), step, micro_batch);
  const size_t depth = Stages() * static_cast<size_t>(pipeline_.chunks);
  const auto chunk_at = [&](size_t layer) {
    return static_cast<int32_t>(layer / Stages());
  };
  const size_t last = Stages() - 1;
  std::vector<Activations> x = {Embed(batch, Values(index_.embedding(), 0))};
  for (size_t layer = 0; layer < depth; ++layer) {
    const size_t stage = layer % Stages();
    x.push_back(LayerForward(x.back(),
                             Values(index_.weight(chunk_at(layer)), stage),
                             Values(index_.bias(chunk_at(layer)), stage)));
  }
  HeadGradients head =
      HeadBackward(batch, x.back(), Values(index_.embedding(), 0),
                   Values(index_.head_bias(), last), LossWeight(pipeline_));
  Activations y_gradient = std::move(head.x);
  Keep(EntryOf(index_.embedding(), 0), 1, data_rank, head.embedding);
  Keep(EntryOf(index_.head_bias(), last), 0, data_rank, head.bias);
  for (size_t layer = depth; layer-- > 0;) {
    const size_t stage = layer % Stages();
    const int32_t weight = index_.weight(chunk_at(layer));
    LayerGradients gradients = LayerBackward(x[layer], x[layer + 1], y_gradient,
                                             Values(weight, stage));
    Keep(EntryOf(weight, stage), 0, data_rank, gradients.weight);
    Keep(EntryOf(index_.bias(chunk_at(layer)), stage), 0, data_rank,
         gradients.bias);
    y_gradient = std::move(gradients.x);
  }
  Keep(EntryOf(index_.embedding(), 0), 0, data_rank,
       EmbedGradient(batch, y_gradient));
}

absl::StatusOr<StepOutcome> WholeModel::TakeStep(int64_t step) {
  kept_.assign(EntryCount(), {});
  for (size_t d = 0; d < static_cast<size_t>(place_.data_size); ++d) {
    for (int32_t m = 0; m < pipeline_.micro_batches; ++m) Train(d, step, m);
  }
  UnshardedStepInput input;
  input.options.clip_norm = pipeline_.clip_norm;
  for (const auto& copies : kept_) {
    LocalGradients local;
    for (const auto& ranks : copies) {
      std::vector<RankGradients> group;
      for (const auto& runs : ranks) {
        RankGradients pointers;
        for (const std::vector<float>& run : runs) {
          pointers.push_back(run.data());
        }
        group.push_back(std::move(pointers));
      }
      local.groups.push_back(std::move(group));
    }
    // The two copies of the embedding are on hosts of their own.
    local.group_lanes.assign(local.groups.size(), pipeline_.lanes_per_host);
    input.gradients.push_back(std::move(local));
  }
  return optimizer_->Step(input);
}

absl::StatusOr<PipelineRun> WholeModel::Run() {
  if (absl::Status s = Create(); !s.ok()) return s;
  PipelineRun run;
  const auto ranks = static_cast<size_t>(mesh_.size());
  run.outcomes.resize(ranks);
  for (int64_t step = 1; step <= pipeline_.steps; ++step) {
    const absl::StatusOr<StepOutcome> outcome = TakeStep(step);
    if (!outcome.ok()) return outcome.status();
    for (std::vector<StepOutcome>& of_rank : run.outcomes) {
      of_rank.push_back(*outcome);
    }
  }
  for (size_t r = 0; r < ranks; ++r) {
    const Rank rank{static_cast<int32_t>(r)};
    const auto stage =
        static_cast<size_t>(PlaceInPipeline(pipeline_, mesh_, rank).stage);
    run.parameters.emplace_back(specs_.size());
    for (size_t p = 0; p < specs_.size(); ++p) {
      if (!LivesOn(specs_[p], mesh_, rank)) continue;
      const auto values = Values(static_cast<int32_t>(p), stage);
      run.parameters[r][p].assign(values.begin(), values.end());
    }
  }
  return run;
}

}  // namespace

absl::StatusOr<PipelineRun> RunWhole(const PipelineCase& pipeline) {
  return WholeModel(pipeline).Run();
}

}  // namespace muonshard::testing
