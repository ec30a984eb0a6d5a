#include "optimizer/unsharded/gradient_fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

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

  Gradients several(DataType::kF32);
  several.Group().Rank({{1}, {1}});
  ExpectInvalid(spec, several, 1, "the one gradient that was accumulated");
}

}  // namespace
}  // namespace muonshard
