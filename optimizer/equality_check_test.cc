#include "optimizer/equality_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "testing/status_matchers.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

ParameterSpec SpecOf(const std::string& name) {
  ParameterSpec spec;
  spec.name = name;
  spec.shape = {37};
  return spec;
}

// "dense" is the same on all four ranks, "expert" on the two of each ep, and
// "own" on none but one.
Plan ThreeParameterPlan() {
  ParameterSpec expert = SpecOf("expert");
  expert.roles["ep"] = AxisRole::kDistinct;
  ParameterSpec own = SpecOf("own");
  own.roles = {{"ep", AxisRole::kDistinct}, {"data", AxisRole::kDistinct}};
  return *Plan::Create({SpecOf("dense"), expert, own},
                       *Mesh::Parse("data=2,ep=2"),
                       HostMap::FromHostIds({"a", "a", "a", "a"}), {});
}

// The memory of four ranks, [rank][parameter], and what the check says of it.
struct FourRanks {
  explicit FourRanks(const Plan& plan_of) : plan(plan_of) {
    for (int32_t r = 0; r < 4; ++r) {
      std::vector<std::vector<float>> own;
      for (int32_t p = 0; p < 3; ++p) {
        // Other values at each place, the same within one.
        const int32_t place = p == 0 ? 0 : p == 1 ? r % 2 : r;
        own.emplace_back(37, static_cast<float>(10 * p + place));
      }
      values.push_back(std::move(own));
    }
  }

  absl::Status Check() const {
    std::vector<int64_t> least;
    for (int32_t r = 0; r < 4; ++r) {
      const EqualityCheck check(plan, Rank{r});
      std::vector<int64_t> own(check.least_count());
      const auto& memory = values[static_cast<size_t>(r)];
      check.Encode(
          [&](int32_t p) {
            return reinterpret_cast<const std::byte*>(
                memory[static_cast<size_t>(p)].data());
          },
          own);
      if (least.empty()) least = own;
      for (size_t i = 0; i < own.size(); ++i) {
        least[i] = std::min(least[i], own[i]);
      }
    }
    return EqualityCheck(plan, Rank{0}).Check(least);
  }

  const Plan& plan;
  std::vector<std::vector<std::vector<float>>> values;
};

TEST(EqualityCheckTest, WhatIsTheSameWithinEachPlaceIsEqual) {
  const Plan plan = ThreeParameterPlan();
  // One place of "dense", two of "expert"; nobody else has "own".
  EXPECT_EQ(EqualityCheck(plan, Rank{0}).least_count(), 2u * 3u);
  EXPECT_THAT(FourRanks(plan).Check(), IsOk());
}

TEST(EqualityCheckTest, EveryElementOfEveryRankIsCompared) {
  const Plan plan = ThreeParameterPlan();
  for (size_t r = 0; r < 4; ++r) {
    for (const size_t element : {0, 1, 16, 35, 36}) {
      FourRanks dense(plan);
      dense.values[r][0][element] += 1;
      EXPECT_THAT(dense.Check(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          "parameter \"dense\" is not the same "
                                          "on its 4 ranks"));
      FourRanks expert(plan);
      expert.values[r][1][element] = -expert.values[r][1][element];
      EXPECT_THAT(
          expert.Check(),
          StatusIs(
              absl::StatusCode::kFailedPrecondition,
              "parameter \"expert\" is not the same on its 2 ranks at ep=" +
                  std::to_string(r % 2)));
      FourRanks own(plan);
      own.values[r][2][element] += 1;
      EXPECT_THAT(own.Check(), IsOk());
    }
  }
}

TEST(EqualityCheckTest, BitsAreComparedAndNotValues) {
  const Plan plan = ThreeParameterPlan();
  FourRanks zeros(plan);
  for (auto& rank : zeros.values) rank[0][3] = 0.0f;
  EXPECT_THAT(zeros.Check(), IsOk());
  zeros.values[2][0][3] = -0.0f;
  EXPECT_THAT(zeros.Check(),
              StatusIs(absl::StatusCode::kFailedPrecondition, "\"dense\""));
}

}  // namespace
}  // namespace muonshard
