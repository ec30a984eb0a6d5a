#include "tools/trainer/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/data_type.h"
#include "collectives/runtime/threads_runtime.h"
#include "optimizer/compute/convert.h"

namespace muonshard {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> BytesOf(const std::vector<float>& values,
                               DataType type = DataType::kF32) {
  std::vector<std::byte> bytes(values.size() * ByteWidth(type));
  FromFloat(type, values, bytes.data());
  return bytes;
}

// One vector of two elements on AdamW, without decay.
VerifySetup SetupOf(const std::string& mesh, DataType type = DataType::kF32) {
  VerifySetup setup;
  ParameterSpec spec;
  spec.name = "vector";
  spec.shape = {2};
  spec.dtype = type;
  spec.gradient_dtype = type;
  spec.weight_decay = false;
  setup.specs = {spec};
  setup.mesh = *Mesh::Parse(mesh);
  setup.hosts = HostMap::FromHostIds(
      std::vector<std::string>(static_cast<size_t>(setup.mesh.size()), "host"));
  setup.first_values = [type](Rank, int32_t) { return BytesOf({1, 2}, type); };
  return setup;
}

class VerifierTest : public ::testing::Test {
 protected:
  std::unique_ptr<Verifier> Make(VerifySetup setup) {
    type_ = setup.specs[0].dtype;
    gradient_type_ = setup.specs[0].gradient_dtype;
    auto verifier = Verifier::Create(*runtime_, std::move(setup));
    EXPECT_TRUE(verifier.ok()) << verifier.status();
    return *std::move(verifier);
  }

  void Deposit(Verifier& verifier, int32_t rank, int64_t step,
               const std::vector<float>& gradient) const {
    verifier.Deposit(Rank{rank}, step, 0, BytesOf(gradient, gradient_type_));
  }

  VerifyDifference Compared(const Verifier& verifier,
                            const std::vector<float>& values,
                            int32_t rank = 0) const {
    VerifyDifference difference;
    verifier.Compare(Rank{rank}, 0, BytesOf(values, type_), difference);
    return difference;
  }

  const std::unique_ptr<Runtime> runtime_ = NewThreadsRuntime();
  // Of the verifier made last.
  DataType type_ = DataType::kF32;
  DataType gradient_type_ = DataType::kF32;
};

TEST_F(VerifierTest, BeforeAnyStepTheFirstValuesAreExpected) {
  const auto verifier = Make(SetupOf("sharding=2"));
  const VerifyDifference none = Compared(*verifier, {1, 2});
  EXPECT_EQ(none.max_abs, 0);
  EXPECT_EQ(none.different_count, 0);
  const VerifyDifference some = Compared(*verifier, {1.5, 2});
  EXPECT_EQ(some.max_abs, 0.5);
  EXPECT_EQ(some.different_count, 1);
}

TEST_F(VerifierTest, TheStepIsTakenWhenTheLastRankHasEndedIt) {
  const auto verifier = Make(SetupOf("sharding=2"));
  Deposit(*verifier, 0, 1, {1, 1});
  Deposit(*verifier, 1, 1, {1, 1});
  ASSERT_TRUE(verifier->EndBackward(Rank{1}, 1, 1).ok());
  EXPECT_EQ(Compared(*verifier, {1, 2}).different_count, 0);
  ASSERT_TRUE(verifier->EndBackward(Rank{0}, 1, 1).ok());
  EXPECT_EQ(Compared(*verifier, {1, 2}).different_count, 2);
}

// Each process has deposits of its own rank alone.
TEST_F(VerifierTest, VerifiersOfTwoProcessesTakeTheSameStep) {
  const auto whole = Make(SetupOf("sharding=2"));
  const std::unique_ptr<Verifier> of_rank[2] = {Make(SetupOf("sharding=2")),
                                                Make(SetupOf("sharding=2"))};
  for (const int32_t rank : {0, 1}) {
    for (Verifier* verifier : {whole.get(), of_rank[rank].get()}) {
      Deposit(*verifier, rank, 1, {1, rank == 0 ? 8.f : 32.f});
      Deposit(*verifier, rank, 1, {2, 16});
    }
  }
  for (const int32_t rank : {0, 1}) {
    Verifier& own = *of_rank[rank];
    Verifier& other = *of_rank[1 - rank];
    ASSERT_TRUE(whole->EndBackward(Rank{rank}, 1, 1).ok());
    const std::string given = own.Contribution(Rank{rank}, 1, 1);
    ASSERT_TRUE(other.TakeContribution(Rank{rank}, 1, given).ok());
    if (rank == 0) continue;
    ASSERT_TRUE(other.EndBackward(Rank{0}, 1, 1).ok());
    ASSERT_TRUE(own.EndBackward(Rank{1}, 1, 1).ok());
  }
  const double wanted = Compared(*whole, {0, 0}).max_abs;
  EXPECT_NE(wanted, 2);
  for (const auto& verifier : of_rank) {
    EXPECT_EQ(Compared(*verifier, {0, 0}).max_abs, wanted);
  }
}

TEST_F(VerifierTest, AContributionThatIsNoneIsRefused) {
  const auto verifier = Make(SetupOf("sharding=2"));
  Deposit(*verifier, 0, 1, {1, 1});
  const std::string whole = verifier->Contribution(Rank{0}, 1, 1);
  for (const std::string& wrong : {std::string(), whole.substr(1), whole + "x",
                                   whole.substr(0, whole.size() - 1)}) {
    const absl::Status status = verifier->TakeContribution(Rank{1}, 2, wrong);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
  }
}

TEST_F(VerifierTest, MicroBatchesAndRanksAreSummed) {
  const auto split = Make(SetupOf("sharding=2"));
  const auto whole = Make(SetupOf("sharding=2"));
  Deposit(*split, 0, 1, {1, 8});
  Deposit(*split, 0, 1, {2, 16});
  Deposit(*split, 1, 1, {4, 32});
  Deposit(*whole, 0, 1, {0, 0});
  Deposit(*whole, 1, 1, {7, 56});
  for (const int32_t rank : {0, 1}) {
    ASSERT_TRUE(split->EndBackward(Rank{rank}, 1, 1).ok());
    ASSERT_TRUE(whole->EndBackward(Rank{rank}, 1, 1).ok());
  }
  // The unsharded parameters, read through the difference to zero.
  EXPECT_EQ(Compared(*split, {0, 0}).max_abs, Compared(*whole, {0, 0}).max_abs);
  EXPECT_NE(Compared(*split, {0, 0}).max_abs, 2);
}

TEST_F(VerifierTest, SumsOfMicroBatchesAreRoundedToTheirType) {
  // The parameter after a first step of `gradients` and a second of 64.
  const auto after = [this](const std::vector<float>& gradients) {
    VerifySetup setup = SetupOf("sharding=1");
    setup.specs[0].gradient_dtype = DataType::kF16;
    const auto verifier = Make(std::move(setup));
    for (const float gradient : gradients) {
      Deposit(*verifier, 0, 1, {gradient, gradient});
    }
    EXPECT_TRUE(verifier->EndBackward(Rank{0}, 1, 1).ok());
    Deposit(*verifier, 0, 2, {64, 64});
    EXPECT_TRUE(verifier->EndBackward(Rank{0}, 2, 1).ok());
    return Compared(*verifier, {0, 0}).max_abs;
  };
  // In f16 2048 + 1 is 2048, however often.
  std::vector<float> parts(65, 1.0f);
  parts[0] = 2048;
  EXPECT_EQ(after(parts), after({2048}));
  EXPECT_NE(after(parts), after({2048 + 64}));
}

TEST_F(VerifierTest, ARankMayBeAStepAhead) {
  const auto verifier = Make(SetupOf("sharding=2"));
  for (const int32_t rank : {0, 1}) {
    for (const int64_t step : {1, 2}) {
      Deposit(*verifier, rank, step, {1, 1});
      ASSERT_TRUE(verifier->EndBackward(Rank{rank}, step, 1).ok());
    }
  }
  EXPECT_GT(Compared(*verifier, {1, 2}).max_abs, 0);
}

TEST_F(VerifierTest, WhatIsDistinctOverAnAxisIsAParameterAtEachPlace) {
  VerifySetup setup = SetupOf("sharding=2,ep=2");
  // Something has to say that ranks along ep hold different data.
  ParameterSpec dense = setup.specs[0];
  dense.name = "dense";
  setup.specs[0].roles["ep"] = AxisRole::kDistinct;
  setup.specs.push_back(dense);
  setup.first_values = [](Rank rank, int32_t) {
    return BytesOf({ToInt(rank) % 2 == 0 ? 1.0f : 5.0f, 2});
  };
  const auto verifier = Make(std::move(setup));
  EXPECT_EQ(Compared(*verifier, {1, 2}, 2).different_count, 0);
  EXPECT_EQ(Compared(*verifier, {5, 2}, 3).different_count, 0);
  for (const int32_t rank : {0, 1, 2, 3}) {
    // Opposite ways at the two places.
    const float gradient = rank % 2 == 0 ? 1.0f : -1.0f;
    Deposit(*verifier, rank, 1, {gradient, gradient});
    verifier->Deposit(Rank{rank}, 1, 1, BytesOf({1, 1}));
    ASSERT_TRUE(verifier->EndBackward(Rank{rank}, 1, 1).ok());
  }
  // The second elements began alike, and went apart by twice the rate of 1e-3.
  EXPECT_NEAR(Compared(*verifier, {1, 2}, 0).max_abs, 1e-3, 1e-5);
  const VerifyDifference apart = Compared(*verifier, {5, 2 - 1e-3f}, 1);
  EXPECT_NEAR(apart.max_abs, 2e-3, 1e-5);
}

TEST_F(VerifierTest, AStepThatIsNotFiniteIsSkippedAndBacksTheScaleOff) {
  VerifySetup setup = SetupOf("sharding=1");
  setup.scaler = GradScalerOptions{.init_scale = 8};
  const auto verifier = Make(std::move(setup));
  Deposit(*verifier, 0, 1, {std::numeric_limits<float>::infinity(), 1});
  ASSERT_TRUE(verifier->EndBackward(Rank{0}, 1, 8).ok());
  EXPECT_EQ(Compared(*verifier, {1, 2}).different_count, 0);
  Deposit(*verifier, 0, 2, {1, 1});
  ASSERT_TRUE(verifier->EndBackward(Rank{0}, 2, 4).ok());
  EXPECT_EQ(Compared(*verifier, {1, 2}).different_count, 2);
}

TEST_F(VerifierTest, ARankThatScalesItsLossOtherwiseIsNamed) {
  VerifySetup setup = SetupOf("sharding=2");
  setup.scaler = GradScalerOptions{.init_scale = 8};
  const auto verifier = Make(std::move(setup));
  Deposit(*verifier, 0, 1, {1, 1});
  Deposit(*verifier, 1, 1, {1, 1});
  ASSERT_TRUE(verifier->EndBackward(Rank{1}, 1, 16).ok());
  const absl::Status status = verifier->EndBackward(Rank{0}, 1, 8);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1: want a loss scale of 8, got 16"));
}

TEST_F(VerifierTest, ANegativeZeroAndANanAreDifferences) {
  for (const DataType type :
       {DataType::kF32, DataType::kF16, DataType::kBF16}) {
    VerifySetup setup = SetupOf("sharding=1", type);
    setup.first_values = [type](Rank, int32_t) {
      return BytesOf({0, 0}, type);
    };
    const auto verifier = Make(std::move(setup));
    const VerifyDifference zero = Compared(*verifier, {-0.0f, 0});
    EXPECT_EQ(zero.max_abs, 0);
    EXPECT_EQ(zero.different_count, 1);
    const VerifyDifference nan =
        Compared(*verifier, {std::numeric_limits<float>::quiet_NaN(), 1});
    EXPECT_TRUE(std::isnan(nan.max_abs));
    EXPECT_EQ(nan.different_count, 2);
  }
}

TEST_F(VerifierTest, AnAbsentGradientIsAnErrorThatStays) {
  const auto verifier = Make(SetupOf("sharding=1"));
  const absl::Status status = verifier->EndBackward(Rank{0}, 1, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("verify: step 1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("vector"));
  EXPECT_EQ(verifier->EndBackward(Rank{0}, 2, 1), status);
}

TEST_F(VerifierTest, WrongOptionsAreRefused) {
  VerifySetup setup = SetupOf("sharding=1");
  setup.options.muon.learning_rate = -1;
  EXPECT_EQ(Verifier::Create(*runtime_, setup).status().code(),
            absl::StatusCode::kInvalidArgument);
  setup.options = {};
  setup.scaler = GradScalerOptions{.init_scale = 0};
  EXPECT_EQ(Verifier::Create(*runtime_, setup).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muonshard
