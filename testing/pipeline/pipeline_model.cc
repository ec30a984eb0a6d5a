#include "testing/pipeline/pipeline_model.h"

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/pipeline/small_mlp.h"
#include "testing/seeded_random.h"

namespace muonshard::testing {
namespace {

const MeshAxis& AxisOf(const Mesh& mesh, const char* name) {
  return mesh.axes()[static_cast<size_t>(*mesh.AxisIndex(name))];
}

ParameterSpec Declare(std::string name, std::vector<int64_t> shape, Rule rule) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  spec.rule = rule;
  // Every passage hands over the gradient of its own micro-batch.
  spec.gradient_mode = GradientMode::kAccumulate;
  spec.roles["pp"] = AxisRole::kDistinct;
  return spec;
}

}  // namespace

std::vector<ParameterSpec> PipelineSpecs(const PipelineCase& pipeline) {
  const Mesh mesh = *Mesh::Parse(pipeline.mesh);
  const int32_t last = AxisOf(mesh, "pp").degree - 1;
  std::vector<ParameterSpec> specs;
  ParameterSpec embedding =
      Declare("embedding", {kMlpWords, kMlpWidth}, Rule::kAdamW);
  embedding.roles["pp"] = AxisRole::kPartial;
  embedding.coordinates["pp"] = {0, last};
  specs.push_back(embedding);
  for (int32_t chunk = 0; chunk < pipeline.chunks; ++chunk) {
    const std::string prefix = absl::StrCat("chunk", chunk);
    specs.push_back(
        Declare(prefix + ".weight", {kMlpWidth, kMlpWidth}, Rule::kMuon));
    specs.push_back(Declare(prefix + ".bias", {kMlpWidth}, Rule::kAdamW));
  }
  ParameterSpec head_bias = Declare("head.bias", {kMlpWords}, Rule::kAdamW);
  head_bias.coordinates["pp"] = {last};
  specs.push_back(head_bias);
  return specs;
}

PipelinePlace PlaceInPipeline(const PipelineCase& pipeline, const Mesh& mesh,
                              Rank rank) {
  const auto pp = static_cast<size_t>(*mesh.AxisIndex("pp"));
  const auto data = static_cast<size_t>(*mesh.AxisIndex("data"));
  std::vector<int32_t> coordinates = mesh.Coordinates(rank);
  PipelinePlace place{.shape = {.stages = AxisOf(mesh, "pp").degree,
                                .chunks = pipeline.chunks,
                                .micro_batches = pipeline.micro_batches},
                      .stage = coordinates[pp],
                      .data_rank = coordinates[data],
                      .data_size = AxisOf(mesh, "data").degree,
                      .stages = {}};
  for (int32_t stage = 0; stage < place.shape.stages; ++stage) {
    coordinates[pp] = stage;
    place.stages.push_back(mesh.RankOf(coordinates));
  }
  return place;
}

std::vector<float> FirstPipelineValues(const PipelineCase& pipeline, int32_t p,
                                       int32_t stage) {
  const std::vector<ParameterSpec> specs = PipelineSpecs(pipeline);
  const ParameterSpec& spec = specs[static_cast<size_t>(p)];
  SeededRandom random(pipeline.seed);
  random.Mix(static_cast<uint64_t>(p));
  // The two copies of the embedding are one parameter.
  const bool apart = spec.roles.at("pp") == AxisRole::kDistinct;
  random.Mix(apart ? static_cast<uint64_t>(stage) : 0);
  std::vector<float> values(static_cast<size_t>(ElementCount(spec)));
  for (float& value : values) value = random.Between(-0.5f, 0.5f);
  return values;
}

float LossWeight(const PipelineCase& pipeline) {
  return 1.0f / static_cast<float>(pipeline.micro_batches * kMlpRows);
}

}  // namespace muonshard::testing
