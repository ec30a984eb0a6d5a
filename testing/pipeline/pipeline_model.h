// Names, specs, places and first values of the pipelined model's parameters.

#ifndef TESTING_PIPELINE_PIPELINE_MODEL_H_
#define TESTING_PIPELINE_PIPELINE_MODEL_H_

#include <cstdint>
#include <vector>

#include "testing/pipeline/pipeline_run.h"
#include "testing/pipeline/schedule.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard::testing {

// Indices of the specs.
struct PipelineIndices {
  int32_t chunks = 1;

  int32_t embedding() const { return 0; }
  int32_t weight(int32_t chunk) const { return 1 + 2 * chunk; }
  int32_t bias(int32_t chunk) const { return 2 + 2 * chunk; }
  int32_t head_bias() const { return 1 + 2 * chunks; }
};

// Where a rank is in the pipeline.
struct PipelinePlace {
  PipelineShape shape;
  int32_t stage = 0;
  int32_t data_rank = 0;
  int32_t data_size = 1;
  // The ranks of all stages with the own data coordinate, by stage.
  std::vector<Rank> stages;

  bool first_stage() const { return stage == 0; }
  bool last_stage() const { return stage == shape.stages - 1; }
};

PipelinePlace PlaceInPipeline(const PipelineCase& pipeline, const Mesh& mesh,
                              Rank rank);

// The first values of parameter `p` on `stage`.
std::vector<float> FirstPipelineValues(const PipelineCase& pipeline, int32_t p,
                                       int32_t stage);

// What one micro-batch of one data coordinate counts in the loss.
float LossWeight(const PipelineCase& pipeline);

}  // namespace muonshard::testing

#endif  // TESTING_PIPELINE_PIPELINE_MODEL_H_
