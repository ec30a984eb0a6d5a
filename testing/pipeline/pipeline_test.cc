// Training through a real pipeline equals training on one process, bit for
// bit: every schedule, with reductions overlapping the backwards of other
// stages.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "testing/pipeline/pipeline_run.h"
#include "testing/rank_harness.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

void ExpectEqualsWhole(const PipelineCase& pipeline,
                       const RuntimeCase& runtime) {
  const absl::StatusOr<PipelineRun> want = RunWhole(pipeline);
  ASSERT_THAT(want, IsOk());
  const PipelineRun got = RunPipeline(pipeline, runtime);
  ASSERT_THAT(got.results, Each(IsOk()));
  const std::vector<ParameterSpec> specs = PipelineSpecs(pipeline);
  for (size_t r = 0; r < got.parameters.size(); ++r) {
    for (size_t p = 0; p < specs.size(); ++p) {
      // A NaN would not equal itself.
      EXPECT_THAT(got.parameters[r][p],
                  ElementsAreArray(want->parameters[r][p]))
          << "rank " << r << ", " << specs[p].name;
    }
    ASSERT_EQ(got.outcomes[r].size(), want->outcomes[r].size());
    for (size_t step = 0; step < want->outcomes[r].size(); ++step) {
      EXPECT_TRUE(got.outcomes[r][step].updated);
      EXPECT_EQ(got.outcomes[r][step].gradient_norm,
                want->outcomes[r][step].gradient_norm);
      EXPECT_EQ(got.outcomes[r][step].clip_factor,
                want->outcomes[r][step].clip_factor);
    }
  }
}

class PipelineTest : public ::testing::TestWithParam<RuntimeCase> {};

TEST_P(PipelineTest, EqualsTheWholeModelForEverySchedule) {
  for (const char* mesh : {"pp=2,data=2", "data=2,pp=2", "pp=4,data=2"}) {
    for (const int32_t chunks : {1, 2}) {
      for (const bool overlap : {false, true}) {
        PipelineCase pipeline{.mesh = mesh,
                              .chunks = chunks,
                              .micro_batches = 4,
                              .clip_norm = 0.05};
        pipeline.options.overlap = overlap;
        pipeline.options.plan.bucket_bytes_max = 1;
        SCOPED_TRACE(::testing::Message() << mesh << ", " << chunks
                                          << " chunks, overlap " << overlap);
        ExpectEqualsWhole(pipeline, GetParam());
      }
    }
  }
}

TEST_P(PipelineTest, EqualsTheWholeModelWithTwoLevels) {
  PipelineCase pipeline{.mesh = "pp=2,data=4",
                        .chunks = 2,
                        .micro_batches = 2,
                        .lanes_per_host = 2};
  pipeline.options.plan.hierarchy = Hierarchy::kOn;
  ExpectEqualsWhole(pipeline, GetParam());
}

TEST_P(PipelineTest, FewerMicroBatchesThanStagesStillFillThePipeline) {
  ExpectEqualsWhole({.mesh = "pp=4,data=1", .micro_batches = 1}, GetParam());
}

TEST_P(PipelineTest, AHookThatFiresOnceMoreFailsTheStepOnEveryStage) {
  PipelineCase pipeline{.mesh = "pp=2,data=2", .micro_batches = 2};
  const std::vector<float> gradient(36, 1.0f);
  pipeline.before_finish = [&gradient](Rank rank, int64_t,
                                       ShardedOptimizer& optimizer) {
    if (rank == Rank{3}) {
      EXPECT_THAT(
          optimizer.GradientReady(1, gradient.data(), 36, DataType::kF32),
          StatusIs(absl::StatusCode::kFailedPrecondition, "chunk0.weight"));
    }
    return absl::OkStatus();
  };
  const PipelineRun run = RunPipeline(pipeline, GetParam());
  EXPECT_THAT(run.results,
              Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                            "chunk0.weight\" was checked in more often")));
  PipelineCase untouched = pipeline;
  untouched.steps = 0;
  const absl::StatusOr<PipelineRun> first = RunWhole(untouched);
  ASSERT_THAT(first, IsOk());
  EXPECT_TRUE(run.parameters == first->parameters);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, PipelineTest,
                         ::testing::ValuesIn(BothRuntimes(3)), RuntimeCaseName);

}  // namespace
}  // namespace muonshard::testing
