#include "optimizer/unsharded/gradient_fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/compute/convert.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::testing::ElementsAre;
using testing::IsOk;
using testing::StatusIs;

ParameterSpec Spec(int64_t count, DataType dtype, GradientMode mode) {
  ParameterSpec spec;
  spec.name = "weight";
  spec.shape = {count};
  spec.gradient_dtype = dtype;
  spec.gradient_mode = mode;
  return spec;
}

// Keeps the elements that LocalGradients borrows.
class Gradients {
 public:
  explicit Gradients(DataType dtype) { local_.dtype = dtype; }

  Gradients& Group() {
    local_.groups.emplace_back();
    return *this;
  }
  // A rank of the last group.
  Gradients& Rank(const std::vector<std::vector<float>>& micro_batches) {
    RankGradients rank;
    for (const std::vector<float>& values : micro_batches) {
      kept_.emplace_back(values.size() * ByteWidth(local_.dtype));
      FromFloat(local_.dtype, values, kept_.back().data());
      rank.push_back(kept_.back().data());
    }
    local_.groups.back().push_back(rank);
    return *this;
  }
  Gradients& Lanes(std::vector<int32_t> group_lanes,
                   int32_t replica_lanes = 0) {
    local_.group_lanes = std::move(group_lanes);
    local_.replica_lanes = replica_lanes;
    return *this;
  }
  const LocalGradients& local() const { return local_; }

 private:
  LocalGradients local_;
  std::deque<std::vector<std::byte>> kept_;
};

std::vector<float> Fold(const ParameterSpec& spec, const Gradients& gradients,
                        int64_t divisor) {
  const absl::StatusOr<std::vector<std::byte>> folded =
      FoldGradients(spec, gradients.local(), divisor);
  EXPECT_THAT(folded, IsOk());
  if (!folded.ok()) return {};
  std::vector<float> values(folded->size() / ByteWidth(spec.gradient_dtype));
  ToFloat(spec.gradient_dtype, folded->data(), values);
  return values;
}

constexpr GradientMode kCopyLast = GradientMode::kCopyLast;

TEST(FoldGradientsTest, RanksAreFoldedFromTheLeft) {
  Gradients gradients(DataType::kF32);
  gradients.Group().Rank({{1e8f, 1}}).Rank({{1, 1e8f}}).Rank({{-1e8f, -1e8f}});
  // 1 beside 1e8 is lost; the other way round as well.
  EXPECT_THAT(Fold(Spec(2, DataType::kF32, kCopyLast), gradients, 1),
              ElementsAre(0, 0));
  Gradients other(DataType::kF32);
  other.Group().Rank({{1e8f}}).Rank({{-1e8f}}).Rank({{1}});
  EXPECT_THAT(Fold(Spec(1, DataType::kF32, kCopyLast), other, 1),
              ElementsAre(1));
}

TEST(FoldGradientsTest, TheSumIsMultipliedOnceByTheRoundedReciprocal) {
  Gradients gradients(DataType::kF32);
  gradients.Group().Rank({{5}}).Rank({{11}}).Rank({{25}});
  EXPECT_THAT(Fold(Spec(1, DataType::kF32, kCopyLast), gradients, 3),
              ElementsAre(41.0f * static_cast<float>(1.0 / 3)));
}

TEST(FoldGradientsTest, NarrowGradientsAreSummedInF32AndRoundedOnce) {
  // Half a unit of bf16's last place at 1, twice: one by one each is lost.
  const float half = std::ldexp(1.0f, -8);
  Gradients gradients(DataType::kBF16);
  gradients.Group().Rank({{1}}).Rank({{half}}).Rank({{half}});
  EXPECT_THAT(Fold(Spec(1, DataType::kBF16, kCopyLast), gradients, 1),
              ElementsAre(1 + 2 * half));
}

TEST(FoldGradientsTest, NarrowLevelsDivideEachByItsOwnRanks) {
  // Two ranks' sum is above the range of f16, their mean is not.
  Gradients gradients(DataType::kF16);
  for (int group = 0; group < 2; ++group) {
    gradients.Group().Rank({{60000}}).Rank({{60000}});
  }
  EXPECT_THAT(Fold(Spec(1, DataType::kF16, kCopyLast), gradients, 4),
              ElementsAre(60000));
  EXPECT_THAT(Fold(Spec(1, DataType::kF16, kCopyLast), gradients, 16),
              ElementsAre(15000));
}

TEST(FoldGradientsTest, EachNarrowLevelIsRounded) {
  const float unit = std::ldexp(1.0f, -7);
  Gradients gradients(DataType::kBF16);
  gradients.Group().Rank({{1}}).Rank({{1 + unit}});
  gradients.Group().Rank({{1 + unit}}).Rank({{1 + unit}});
  // The mean of the first group is a tie and goes to 1, and so does that of 1
  // and 1 + unit. Without the first rounding it would be 1 + 3/4 unit and go
  // up.
  EXPECT_THAT(Fold(Spec(1, DataType::kBF16, kCopyLast), gradients, 4),
              ElementsAre(1));
}

TEST(FoldGradientsTest, F32LevelsAreScaledAtTheLastAlone) {
  // Each group's sum is 3 or 4; thirds are rounded once, after the last sum.
  Gradients gradients(DataType::kF32);
  gradients.Group().Rank({{1}}).Rank({{2}});
  gradients.Group().Rank({{3}}).Rank({{1}});
  EXPECT_THAT(Fold(Spec(1, DataType::kF32, kCopyLast), gradients, 12),
              ElementsAre(7.0f * static_cast<float>(1.0 / 12)));
  // Groups are summed first: (1e8 + 1) + (-1e8 + 1), both ones lost; folded
  // over all ranks the last 1 would be left.
  Gradients order(DataType::kF32);
  order.Group().Rank({{1e8f}}).Rank({{1}});
  order.Group().Rank({{-1e8f}}).Rank({{1}});
  EXPECT_THAT(Fold(Spec(1, DataType::kF32, kCopyLast), order, 1),
              ElementsAre(0));
}

TEST(FoldGradientsTest, ReplicasOfOneRankEachKeepTheirValuesInTheFirstLevel) {
  Gradients gradients(DataType::kBF16);
  gradients.Group().Rank({{3}});
  gradients.Group().Rank({{5}});
  EXPECT_THAT(Fold(Spec(1, DataType::kBF16, kCopyLast), gradients, 2),
              ElementsAre(4));
}

TEST(FoldGradientsTest, LanesOfAHostAreFoldedBeforeTheHosts) {
  Gradients gradients(DataType::kF32);
  gradients.Group().Rank({{1e8f}}).Rank({{1}}).Rank({{-1e8f}}).Rank({{1}});
  const ParameterSpec spec = Spec(1, DataType::kF32, kCopyLast);
  // Flat, the first 1 is lost and the second is not.
  for (const int32_t flat : {0, 1, 4}) {
    EXPECT_THAT(Fold(spec, gradients.Lanes({flat}), 1), ElementsAre(1));
  }
  EXPECT_THAT(Fold(spec, gradients.Lanes({}), 1), ElementsAre(1));
  EXPECT_THAT(Fold(spec, gradients.Lanes({2}), 1), ElementsAre(0));
}

TEST(FoldGradientsTest, F32LanesAreNotScaled) {
  Gradients gradients(DataType::kF32);
  gradients.Group().Rank({{1}}).Rank({{4}}).Rank({{5}}).Rank({{7}}).Lanes({2});
  // Were 1/6 split over the levels, 17 would be rounded otherwise.
  EXPECT_THAT(Fold(Spec(1, DataType::kF32, kCopyLast), gradients, 6),
              ElementsAre(17.0f * static_cast<float>(1.0 / 6)));
}

TEST(FoldGradientsTest, NarrowLanesDivideByTheirNumberAndAreRounded) {
  Gradients large(DataType::kF16);
  large.Group().Lanes({2});
  for (int rank = 0; rank < 4; ++rank) large.Rank({{60000}});
  // No level's sum fits f16, and the mean does.
  const ParameterSpec half = Spec(1, DataType::kF16, kCopyLast);
  EXPECT_THAT(Fold(half, large, 4), ElementsAre(60000));
  EXPECT_THAT(Fold(half, large, 8), ElementsAre(30000));

  const float unit = std::ldexp(1.0f, -7);
  Gradients ties(DataType::kBF16);
  ties.Group().Rank({{1}}).Rank({{1 + unit}}).Rank({{1 + unit}});
  ties.Rank({{1 + unit}}).Lanes({2});
  // As EachNarrowLevelIsRounded has it for replicas.
  const ParameterSpec brain = Spec(1, DataType::kBF16, kCopyLast);
  EXPECT_THAT(Fold(brain, ties, 4), ElementsAre(1));
  EXPECT_THAT(Fold(brain, ties.Lanes({0}), 4), ElementsAre(1 + unit));
}

TEST(FoldGradientsTest, BothCallsMayHaveTwoLevelsEach) {
  // Four groups of four ranks, two lanes each way: sixteen values, which are
  // rounded after every pair.
  const DataType type = DataType::kBF16;
  Gradients gradients(type);
  std::vector<float> pairs;
  for (int group = 0; group < 4; ++group) {
    gradients.Group();
    for (int rank = 0; rank < 4; ++rank) {
      pairs.push_back(1 + static_cast<float>(group * 29 + rank * 7) / 128);
      gradients.Rank({{pairs.back()}});
    }
  }
  gradients.Lanes({2, 2, 2, 2}, 2);
  const auto rounded = [&](float value) {
    std::byte bytes[2];
    FromFloat(type, std::span(&value, 1), bytes);
    ToFloat(type, bytes, std::span(&value, 1));
    return value;
  };
  // The divisor 48: the last pair takes what 2, 2 and 2 leave of it.
  const float last = static_cast<float>(4.0 / 48 * 2);
  for (const float scale : {0.5f, 0.5f, 0.5f, last}) {
    std::vector<float> sums;
    for (size_t i = 0; i < pairs.size(); i += 2) {
      sums.push_back(rounded((pairs[i] + pairs[i + 1]) * scale));
    }
    pairs = sums;
  }
  EXPECT_THAT(Fold(Spec(1, type, kCopyLast), gradients, 48),
              ElementsAre(pairs[0]));
}

TEST(FoldGradientsTest, GroupsMayHaveLanesOfTheirOwn) {
  Gradients gradients(DataType::kF32);
  gradients.Group().Rank({{1e8f}}).Rank({{1}}).Rank({{-1e8f}}).Rank({{1}});
  gradients.Group().Rank({{1e8f}}).Rank({{1}}).Rank({{-1e8f}}).Rank({{1}});
  EXPECT_THAT(
      Fold(Spec(1, DataType::kF32, kCopyLast), gradients.Lanes({2, 0}), 1),
      ElementsAre(1));
}

TEST(FoldGradientsTest, CheckInsOfAnyNumberAreAdded) {
  // As those of a weight that several sub-graphs use, once in each.
  for (const GradientMode mode :
       {GradientMode::kView, GradientMode::kAccumulate}) {
    Gradients gradients(DataType::kF32);
    gradients.Group().Rank({{1}, {2}, {3}}).Rank({{4}});
    EXPECT_THAT(Fold(Spec(1, DataType::kF32, mode), gradients, 2),
                ElementsAre(5));
  }
}

TEST(FoldGradientsTest, AccumulatedMicroBatchesOfAnyTypeAreAddedInF32) {
  const float half = std::ldexp(1.0f, -8);
  for (const DataType type :
       {DataType::kBF16, DataType::kF16, DataType::kF32, DataType::kF64}) {
    Gradients gradients(type);
    gradients.Group().Rank({{1}, {half}, {half}}).Rank({{2}});
    EXPECT_THAT(
        Fold(Spec(1, DataType::kF32, GradientMode::kAccumulate), gradients, 1),
        ElementsAre(3 + 2 * half));
  }
}

TEST(FoldGradientsTest, AViewIsRoundedAfterEachMicroBatch) {
  const float half = std::ldexp(1.0f, -8);
  Gradients gradients(DataType::kBF16);
  gradients.Group().Rank({{1}, {half}, {half}});
  EXPECT_THAT(Fold(Spec(1, DataType::kBF16, GradientMode::kView), gradients, 1),
              ElementsAre(1));
}

TEST(FoldGradientsTest, ARankWithoutAGradientCountsAsZero) {
  Gradients gradients(DataType::kF32);
  gradients.Group().Rank({{4, 8}}).Rank({});
  EXPECT_FALSE(IsAbsent(gradients.local()));
  EXPECT_THAT(Fold(Spec(2, DataType::kF32, kCopyLast), gradients, 2),
              ElementsAre(2, 4));
}

TEST(FoldGradientsTest, WithoutAnyGradientTheSumIsZero) {
  Gradients none(DataType::kF32);
  EXPECT_TRUE(IsAbsent(none.local()));
  EXPECT_THAT(Fold(Spec(2, DataType::kF32, kCopyLast), none, 2),
              ElementsAre(0, 0));
  Gradients without(DataType::kF32);
  without.Group().Rank({}).Rank({});
  EXPECT_TRUE(IsAbsent(without.local()));
  EXPECT_THAT(Fold(Spec(2, DataType::kF32, kCopyLast), without, 2),
              ElementsAre(0, 0));
}

void ExpectInvalid(const ParameterSpec& spec, const Gradients& gradients,
                   int64_t divisor, const std::string& text) {
  const auto folded = FoldGradients(spec, gradients.local(), divisor);
  EXPECT_THAT(folded, StatusIs(absl::StatusCode::kInvalidArgument, "weight"));
  EXPECT_THAT(folded, StatusIs(absl::StatusCode::kInvalidArgument, text));
}

TEST(FoldGradientsTest, WhatDoesNotFitIsRefused) {
  const ParameterSpec spec = Spec(1, DataType::kF32, kCopyLast);
  Gradients right(DataType::kF32);
  right.Group().Rank({{1}});
  ExpectInvalid(spec, right, 0, "divisor >= 1, got 0");

  Gradients narrow(DataType::kBF16);
  narrow.Group().Rank({{1}});
  ExpectInvalid(spec, narrow, 1, "want gradients of f32, got bf16");

  Gradients integers(DataType::kI32);
  ExpectInvalid(Spec(1, DataType::kF32, GradientMode::kAccumulate), integers, 1,
                "want gradients of a floating type, got i32");

  Gradients uneven(DataType::kF32);
  uneven.Group().Rank({{1}}).Rank({{1}});
  uneven.Group().Rank({{1}});
  ExpectInvalid(spec, uneven, 1, "shard groups of one size >= 1, got 2 and 1");

  Gradients empty(DataType::kF32);
  empty.Group();
  ExpectInvalid(spec, empty, 1, "got 0 and 0");

  Gradients lanes(DataType::kF32);
  lanes.Group().Rank({{1}}).Rank({{1}}).Rank({{1}}).Rank({{1}});
  ExpectInvalid(spec, lanes.Lanes({3}), 1,
                "group lanes that divide 4 ranks, got 3");
  ExpectInvalid(spec, lanes.Lanes({-1}), 1, "got -1");
  ExpectInvalid(spec, lanes.Lanes({2, 2}), 1,
                "the lanes of 1 shard groups, got 2");
  ExpectInvalid(spec, lanes.Lanes({}, 2), 1,
                "replica lanes that divide 1 shard groups, got 2");

  Gradients several(DataType::kF32);
  several.Group().Rank({{1}, {1}});
  ExpectInvalid(spec, several, 1, "the one gradient that was accumulated");
}

}  // namespace
}  // namespace muonshard
