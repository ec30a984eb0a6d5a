#include "testing/pipeline/pipeline_run.h"

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/buffer.h"
#include "collectives/collective.h"
#include "collectives/work.h"
#include "testing/pipeline/pipeline_model.h"
#include "testing/pipeline/small_mlp.h"

namespace muonshard::testing {
namespace {

// One direction of the messages between stages. A group of its own, so that
// activations and gradients between the same two stages do not mix.
class StageMessages {
 public:
  explicit StageMessages(std::unique_ptr<Collective> stages)
      : stages_(std::move(stages)) {}
  // What was sent may be read until its work has ended.
  ~StageMessages() {
    if (sent_.empty()) return;
    stages_->Abort(absl::AbortedError("the stage's program ended early"));
    (void)Drain();
  }

  // Returns at once; the message is kept until it has been taken.
  absl::Status Send(Activations message, int32_t stage) {
    sent_.push_back({std::move(message), Work()});
    absl::StatusOr<Work> work =
        stages_->Send(ConstBuffer::Of<float>(sent_.back().message), Rank{stage},
                      {.deadline = Deadline()});
    if (!work.ok()) return work.status();
    sent_.back().work = *std::move(work);
    return absl::OkStatus();
  }

  absl::StatusOr<Activations> Receive(int32_t stage) {
    Activations message(static_cast<size_t>(kMlpRows * kMlpWidth));
    const absl::Status received =
        AwaitEnd(stages_->Recv(MutableBuffer::Of<float>(message), Rank{stage},
                               {.deadline = Deadline()}));
    if (!received.ok()) return received;
    return message;
  }

  // Waits until everything sent has been taken.
  absl::Status Drain() {
    absl::Status first;
    for (const Sent& sent : sent_) first.Update(AwaitEnd(sent.work));
    sent_.clear();
    return first;
  }

 private:
  struct Sent {
    Activations message;
    Work work;
  };

  absl::Time Deadline() const { return GuardDeadline(stages_->runtime()); }

  const std::unique_ptr<Collective> stages_;
  std::list<Sent> sent_;  // Messages do not move.
};

// One rank's program.
class StageProgram {
 public:
  StageProgram(const PipelineCase& pipeline, const Mesh& mesh,
               Collective& world, PipelineRun& run)
      : pipeline_(pipeline),
        mesh_(mesh),
        world_(world),
        run_(run),
        place_(PlaceInPipeline(pipeline, mesh, world.rank())),
        index_{.chunks = pipeline.chunks},
        specs_(PipelineSpecs(pipeline)),
        values_(run.parameters[RankIndex()]) {}

  absl::Status Run() {
    if (absl::Status s = SetUp(); !s.ok()) return s;
    for (int64_t step = 1; step <= pipeline_.steps; ++step) {
      if (absl::Status s = TakeStep(step); !s.ok()) return s;
    }
    return optimizer_->Synchronize();
  }

 private:
  size_t RankIndex() const { return static_cast<size_t>(ToInt(world_.rank())); }

  absl::Status SetUp();
  absl::StatusOr<std::unique_ptr<Collective>> StagesGroup(const char* name);
  absl::Status TakeStep(int64_t step);
  absl::Status Forward(const Passage& passage);
  absl::Status Backward(const Passage& passage);
  absl::Status GiveGradient(int32_t p, const std::vector<float>& gradient) {
    return optimizer_->GradientReady(p, gradient.data(),
                                     static_cast<int64_t>(gradient.size()),
                                     DataType::kF32);
  }
  // The weights of a forward that begins now.
  absl::StatusOr<std::span<const float>> Use(int32_t p) {
    if (absl::Status s =
            optimizer_->WaitForParameters(specs_[static_cast<size_t>(p)].name);
        !s.ok()) {
      return s;
    }
    return Values(p);
  }
  std::span<const float> Values(int32_t p) const {
    return values_[static_cast<size_t>(p)];
  }
  bool BeginsModel(const Passage& passage) const {
    return place_.first_stage() && passage.chunk == 0;
  }
  bool EndsModel(const Passage& passage) const {
    return place_.last_stage() && passage.chunk == pipeline_.chunks - 1;
  }
  // The neighbours of a chunk of this stage; the pipeline is a ring.
  int32_t StageBefore() const {
    return (place_.stage + place_.shape.stages - 1) % place_.shape.stages;
  }
  int32_t StageAfter() const {
    return (place_.stage + 1) % place_.shape.stages;
  }

  // What a forward leaves for its backward.
  struct Kept {
    MlpBatch batch;
    Activations x;
    Activations y;
  };

  const PipelineCase& pipeline_;
  const Mesh& mesh_;
  Collective& world_;
  PipelineRun& run_;
  const PipelinePlace place_;
  const PipelineIndices index_;
  const std::vector<ParameterSpec> specs_;
  std::vector<std::vector<float>>& values_;
  std::optional<StageMessages> activations_;
  std::optional<StageMessages> gradients_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
  int64_t step_ = 0;
  std::map<std::pair<int32_t, int32_t>, Kept> kept_;  // Chunk, micro-batch.
};

absl::StatusOr<std::unique_ptr<Collective>> StageProgram::StagesGroup(
    const char* name) {
  return world_.Split(ToInt(place_.stages.front()), place_.stage, name,
                      GuardDeadline(world_.runtime()));
}

absl::Status StageProgram::SetUp() {
  absl::StatusOr<std::unique_ptr<Collective>> group =
      StagesGroup("activations");
  if (!group.ok()) return group.status();
  activations_.emplace(*std::move(group));
  group = StagesGroup("gradients of activations");
  if (!group.ok()) return group.status();
  gradients_.emplace(*std::move(group));
  OptimizerEnvironment environment;
  if (pipeline_.lanes_per_host > 0) {
    environment.host_id =
        absl::StrCat("host", ToInt(world_.rank()) / pipeline_.lanes_per_host);
  }
  absl::StatusOr<std::unique_ptr<ShardedOptimizer>> optimizer =
      ShardedOptimizer::Create(specs_, mesh_, world_, pipeline_.options,
                               std::move(environment));
  if (!optimizer.ok()) return optimizer.status();
  optimizer_ = *std::move(optimizer);
  values_.resize(specs_.size());
  for (size_t p = 0; p < specs_.size(); ++p) {
    if (!LivesOn(specs_[p], mesh_, world_.rank())) continue;
    const auto index = static_cast<int32_t>(p);
    values_[p] = FirstPipelineValues(pipeline_, index, place_.stage);
    if (absl::Status s = optimizer_->BindParameter(index, values_[p].data());
        !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

absl::Status StageProgram::TakeStep(int64_t step) {
  step_ = step;
  if (absl::Status s = optimizer_->BeginStep(pipeline_.micro_batches);
      !s.ok()) {
    return s;
  }
  for (const Passage& passage :
       OneForwardOneBackward(place_.shape, place_.stage)) {
    absl::Status s = passage.forward ? Forward(passage) : Backward(passage);
    if (!s.ok()) return s;
  }
  if (absl::Status s = activations_->Drain(); !s.ok()) return s;
  if (absl::Status s = gradients_->Drain(); !s.ok()) return s;
  if (pipeline_.before_finish) {
    absl::Status s = pipeline_.before_finish(world_.rank(), step, *optimizer_);
    if (!s.ok()) return s;
  }
  absl::StatusOr<ReducedGradients> reduced = optimizer_->Finish();
  if (!reduced.ok()) return reduced.status();
  StepOptions options;
  options.clip_norm = pipeline_.clip_norm;
  if (absl::Status s = optimizer_->Step(*std::move(reduced), options);
      !s.ok()) {
    return s;
  }
  absl::StatusOr<StepOutcome> outcome = optimizer_->Outcome();
  if (!outcome.ok()) return outcome.status();
  run_.outcomes[RankIndex()].push_back(*outcome);
  return absl::OkStatus();
}

absl::Status StageProgram::Forward(const Passage& passage) {
  Kept& kept = kept_[{passage.chunk, passage.micro_batch}];
  kept.batch = MakeMlpBatch(pipeline_.seed, place_.data_rank, step_,
                            passage.micro_batch);
  if (BeginsModel(passage)) {
    const auto embedding = Use(index_.embedding());
    if (!embedding.ok()) return embedding.status();
    kept.x = Embed(kept.batch, *embedding);
  } else {
    absl::StatusOr<Activations> x = activations_->Receive(StageBefore());
    if (!x.ok()) return x.status();
    kept.x = *std::move(x);
  }
  const auto weight = Use(index_.weight(passage.chunk));
  if (!weight.ok()) return weight.status();
  const auto bias = Use(index_.bias(passage.chunk));
  if (!bias.ok()) return bias.status();
  kept.y = LayerForward(kept.x, *weight, *bias);
  if (!EndsModel(passage)) return activations_->Send(kept.y, StageAfter());
  for (const int32_t p : {index_.embedding(), index_.head_bias()}) {
    if (absl::Status s = Use(p).status(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status StageProgram::Backward(const Passage& passage) {
  const Kept kept =
      std::move(kept_.extract({passage.chunk, passage.micro_batch}).mapped());
  Activations y_gradient;
  if (EndsModel(passage)) {
    HeadGradients head =
        HeadBackward(kept.batch, kept.y, Values(index_.embedding()),
                     Values(index_.head_bias()), LossWeight(pipeline_));
    y_gradient = std::move(head.x);
    absl::Status s = GiveGradient(index_.embedding(), head.embedding);
    s.Update(GiveGradient(index_.head_bias(), head.bias));
    if (!s.ok()) return s;
  } else {
    absl::StatusOr<Activations> received = gradients_->Receive(StageAfter());
    if (!received.ok()) return received.status();
    y_gradient = *std::move(received);
  }
  LayerGradients layer = LayerBackward(kept.x, kept.y, y_gradient,
                                       Values(index_.weight(passage.chunk)));
  absl::Status s = GiveGradient(index_.weight(passage.chunk), layer.weight);
  s.Update(GiveGradient(index_.bias(passage.chunk), layer.bias));
  if (!s.ok()) return s;
  if (!BeginsModel(passage)) {
    return gradients_->Send(std::move(layer.x), StageBefore());
  }
  return GiveGradient(index_.embedding(), EmbedGradient(kept.batch, layer.x));
}

}  // namespace

PipelineRun RunPipeline(const PipelineCase& pipeline,
                        const RuntimeCase& runtime) {
  PipelineRun run;
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(pipeline.mesh);
  if (!mesh.ok()) {
    run.results.push_back(mesh.status());
    return run;
  }
  run.parameters.resize(static_cast<size_t>(mesh->size()));
  run.outcomes.resize(static_cast<size_t>(mesh->size()));
  RankRunOptions options;
  options.runtime = runtime;
  options.size = mesh->size();
  run.results = RunOnRanks(options, [&](Collective& world) {
                  return StageProgram(pipeline, *mesh, world, run).Run();
                }).results;
  return run;
}

}  // namespace muonshard::testing
