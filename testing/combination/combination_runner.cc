#include "testing/combination/combination_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"
#include "testing/same_run.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

double Distance(const ParameterSpec& spec, const ParameterBytes& bytes,
                const std::vector<double>& want) {
  std::vector<float> got(want.size());
  ToFloat(spec.dtype, bytes.data(), got);
  double squares = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = double{got[i]} - want[i];
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

// Each step's error names a parameter whose name begins with `prefix`.
void ExpectErrorsToName(const ShardedRun& run, const std::string& prefix) {
  for (const std::vector<absl::Status>& of_rank : run.step_results) {
    for (const absl::Status& result : of_rank) {
      if (result.ok()) continue;
      EXPECT_THAT(std::string(result.message()), HasSubstr(prefix));
    }
  }
}

}  // namespace

CombinationRunner::CombinationRunner(CombinationMesh mesh,
                                     GradientValues gradients)
    : mesh_(std::move(mesh)), gradients_(gradients) {}

const CombinationRunner::Expected* CombinationRunner::ExpectedOf(
    const Combination& combination) {
  Combination same = combination;
  same.overlap = false;
  same.gather = GatherMode::kEager;
  same.release_gradients = false;
  std::unique_ptr<Expected>& expected = expected_[ToString(same)];
  if (expected != nullptr) return expected.get();
  const ShardedCase sharded = CaseOf(mesh_, same, gradients_);
  absl::StatusOr<UnshardedRun> unsharded = RunUnsharded(sharded);
  absl::StatusOr<ReferenceRun> reference = RunReference(sharded);
  EXPECT_THAT(unsharded, IsOk());
  EXPECT_THAT(reference, IsOk());
  if (!unsharded.ok() || !reference.ok()) return nullptr;
  expected = std::make_unique<Expected>(
      Expected{*std::move(unsharded), *std::move(reference)});
  return expected.get();
}

void CombinationRunner::Run(const Combination& combination,
                            const RuntimeCase& runtime) {
  SCOPED_TRACE(absl::StrCat(mesh_.mesh, " on hosts ", mesh_.hosts, ": ",
                            ToString(combination), " on ", ToString(runtime)));
  const ShardedCase sharded = CaseOf(mesh_, combination, gradients_);
  const ShardedRun run = RunSharded(sharded, runtime);
  if (combination.hierarchy == Hierarchy::kOn && !mesh_.refusal.empty()) {
    for (const absl::Status& result : run.results) {
      EXPECT_FALSE(result.ok());
      EXPECT_THAT(std::string(result.message()),
                  AllOf(HasSubstr("hierarchy"), HasSubstr(mesh_.refusal)));
    }
    ++counts_.refused;
    return;
  }
  ASSERT_THAT(run.results, Each(IsOk()));
  const Expected* expected = ExpectedOf(combination);
  ASSERT_NE(expected, nullptr);
  ExpectSameRun(sharded, run, expected->unsharded);
  ExpectErrorsToName(run, "absent.");
  if (gradients_ == GradientValues::kExactSums) {
    Combination flat = combination;
    flat.hierarchy = Hierarchy::kOff;
    const Expected* without = ExpectedOf(flat);
    ASSERT_NE(without, nullptr);
    EXPECT_TRUE(expected->unsharded.parameters == without->unsharded.parameters)
        << "hierarchy changes bits of exact sums";
    ExpectNearReference(sharded, run, expected->reference);
  }
  if (!::testing::Test::HasFailure()) ++counts_.equal;
}

void CombinationRunner::ExpectNearReference(const ShardedCase& sharded,
                                            const ShardedRun& got,
                                            const ReferenceRun& want) const {
  for (size_t p = 0; p < sharded.specs.size(); ++p) {
    const ParameterSpec& spec = sharded.specs[p];
    const double bound = ReferenceBound(sharded, spec);
    for (size_t r = 0; r < got.parameters.size(); ++r) {
      ASSERT_EQ(got.parameters[r][p].empty(), want.parameters[r][p].empty());
      if (got.parameters[r][p].empty()) continue;
      EXPECT_LE(Distance(spec, got.parameters[r][p], want.parameters[r][p]),
                bound)
          << "rank " << r << ", parameter " << spec.name;
    }
  }
  for (size_t s = 0; s < want.outcomes.size(); ++s) {
    EXPECT_EQ(got.outcomes[0][s].updated, want.outcomes[s].updated);
    if (!want.outcomes[s].updated) continue;
    // Each reduced gradient is rounded a few times.
    EXPECT_NEAR(got.outcomes[0][s].gradient_norm,
                want.outcomes[s].gradient_norm,
                std::ldexp(want.outcomes[s].gradient_norm, -22));
  }
}

void RunAll(const std::vector<Combination>& combinations,
            const CombinationMesh& mesh, RuntimeCase::Kind kind,
            GradientValues gradients) {
  CombinationRunner runner(mesh, gradients);
  uint64_t seed = 0;
  for (const Combination& combination : combinations) {
    runner.Run(combination, {.kind = kind, .seed = ++seed});
  }
  const RunCounts& counts = runner.counts();
  std::cout << mesh.mesh << ": " << combinations.size() << " runs, "
            << counts.equal << " equal, " << counts.refused << " refused"
            << std::endl;
  EXPECT_EQ(counts.equal + counts.refused,
            static_cast<int>(combinations.size()));
}

}  // namespace muonshard::testing
