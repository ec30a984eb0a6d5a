#include "tools/trainer/gpt_model.h"

#include <ATen/Parallel.h>
#include <cblas.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/data_type.h"
#include "optimizer/compute/convert.h"
#include "testing/unit_roundoff.h"
#include "tools/trainer/model_placement.h"

namespace muonshard {
namespace {

using ::testing::HasSubstr;

constexpr ByteGptShape kTiny{.width = 8, .layers = 2, .heads = 2, .context = 6};

TokenBatch TinyBatch(int64_t sequences = 3) {
  TokenBatch batch{.sequences = sequences, .context = kTiny.context};
  for (int64_t i = 0; i < sequences * (kTiny.context + 1); ++i) {
    batch.tokens.push_back((i * i + 3 * i) % 256);
  }
  return batch;
}

GptModelConfig ConfigOf(const ByteGptShape& shape,
                        DataType precision = DataType::kF32) {
  GptModelConfig config;
  config.shape = shape;
  config.specs = GptParameterSpecs(shape, Rule::kMuon, precision);
  const auto values = GptInitialValues(shape, 1);
  for (size_t p = 0; p < values.size(); ++p) {
    config.first_values.push_back(
        FirstValuesAt(config.specs[p], values[p], {}));
  }
  return config;
}

std::unique_ptr<GptModel> ModelOf(GptModelConfig config) {
  UseOneThread();
  auto model = GptModel::Create(std::move(config));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::unique_ptr<GptModel> TinyModel(GptCallbacks callbacks = {}) {
  GptModelConfig config = ConfigOf(kTiny);
  config.callbacks = std::move(callbacks);
  return ModelOf(std::move(config));
}

std::vector<float> FloatsOf(DataType type, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / ByteWidth(type));
  ToFloat(type, bytes.data(), values);
  return values;
}

std::span<float> Parameter(GptModel& model, int32_t p) {
  const std::span<std::byte> bytes = model.parameter(p);
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

TEST(UseOneThreadTest, HoldsOnThreadsThatStartAfterwards) {
  const auto counts_of_a_new_thread = [] {
    std::pair<int, int> counts;
    std::thread([&] {
      counts = {at::get_num_threads(), openblas_get_num_threads()};
    }).join();
    return counts;
  };
  at::set_num_threads(2);
  openblas_set_num_threads(2);
  ASSERT_EQ(counts_of_a_new_thread(), std::pair(2, 2));
  UseOneThread();
  EXPECT_EQ(counts_of_a_new_thread(), std::pair(1, 1));
}

using Gradients = std::map<int32_t, std::vector<float>>;

GptCallbacks Recording(Gradients& accumulated, Gradients& own,
                       DataType type = DataType::kF32) {
  GptCallbacks callbacks;
  callbacks.on_gradient = [&, type](const GradientArrival& arrival) {
    accumulated[arrival.parameter] = FloatsOf(type, arrival.accumulated);
    own[arrival.parameter] = FloatsOf(type, arrival.own);
    return absl::OkStatus();
  };
  return callbacks;
}

TEST(GptModelTest, AnUntrainedModelGuessesAllBytesAlike) {
  const auto loss = TinyModel()->Loss(TinyBatch());
  ASSERT_TRUE(loss.ok());
  // Logits of deviation 0.02 sqrt(8) change the mean by far less.
  EXPECT_NEAR(*loss, std::log(256.0), 0.1);
}

TEST(GptModelTest, EveryParameterIsAskedForOnceAndGetsOneGradient) {
  std::map<int32_t, int> asked;
  std::map<int32_t, int> arrived;
  GptCallbacks callbacks;
  callbacks.before_use = [&](int32_t p) {
    EXPECT_TRUE(arrived.empty());
    ++asked[p];
    return absl::OkStatus();
  };
  callbacks.on_gradient = [&](const GradientArrival& arrival) {
    ++arrived[arrival.parameter];
    return absl::OkStatus();
  };
  const auto model = TinyModel(std::move(callbacks));
  ASSERT_TRUE(model->Forward(TinyBatch()).ok());
  ASSERT_TRUE(model->Backward(1).ok());
  ASSERT_EQ(asked.size(), static_cast<size_t>(model->parameter_count()));
  EXPECT_EQ(asked, arrived);
  for (const auto& [p, times] : asked) EXPECT_EQ(times, 1) << p;
}

TEST(GptModelTest, ParametersAreAskedForInOrder) {
  std::vector<int32_t> asked;
  GptCallbacks callbacks;
  callbacks.before_use = [&](int32_t p) {
    asked.push_back(p);
    return absl::OkStatus();
  };
  const auto model = TinyModel(std::move(callbacks));
  ASSERT_TRUE(model->Loss(TinyBatch()).ok());
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(asked[i], static_cast<int32_t>(i));
  }
}

TEST(GptModelTest, GradientsMatchDifferencesOfTheLoss) {
  Gradients gradients, own;
  const auto model = TinyModel(Recording(gradients, own));
  const TokenBatch batch = TinyBatch();
  ASSERT_TRUE(model->Forward(batch).ok());
  ASSERT_TRUE(model->Backward(1).ok());
  for (int32_t p = 0; p < model->parameter_count(); ++p) {
    // Along the gradient itself the loss grows by its squared norm.
    const std::vector<float>& gradient = gradients[p];
    double squares = 0;
    for (const float g : gradient) squares += double{g} * g;
    const double norm = std::sqrt(squares);
    ASSERT_GT(norm, 0) << p;
    const auto moved_loss = [&](double distance) {
      const std::span<float> values = Parameter(*model, p);
      const std::vector<float> kept(values.begin(), values.end());
      for (size_t i = 0; i < gradient.size(); ++i) {
        values[i] += static_cast<float>(distance * gradient[i] / norm);
      }
      const double loss = *model->Loss(batch);
      std::copy(kept.begin(), kept.end(), values.begin());
      return loss;
    };
    constexpr double kDistance = 0.02;
    const double slope =
        (moved_loss(kDistance) - moved_loss(-kDistance)) / (2 * kDistance);
    // An f32 loss near 5.5 is rounded to 2.4e-7, a few times over in its sums;
    // two of them over 0.04 leave 1e-4. Curvature leaves a few hundredths.
    EXPECT_NEAR(slope, norm, 1e-4 + 0.05 * norm) << p;
  }
}

TEST(GptModelTest, GradientsAccumulateUntilTheyAreDropped) {
  Gradients accumulated, own;
  const auto model = TinyModel(Recording(accumulated, own));
  const auto backward = [&] {
    ASSERT_TRUE(model->Forward(TinyBatch()).ok());
    ASSERT_TRUE(model->Backward(0.5).ok());
  };
  backward();
  const Gradients once = accumulated;
  EXPECT_EQ(own, once);
  backward();
  EXPECT_EQ(own, once);
  for (const auto& [p, gradient] : once) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      // Doubling is exact.
      ASSERT_EQ(accumulated[p][i], 2 * gradient[i]) << p;
    }
  }
  model->DropGradients();
  backward();
  EXPECT_EQ(accumulated, once);
}

TEST(GptModelTest, AnErrorBeforeUseEndsTheForward) {
  GptCallbacks callbacks;
  callbacks.before_use = [](int32_t p) {
    return p == 5 ? absl::UnavailableError("no parameter 5") : absl::OkStatus();
  };
  EXPECT_EQ(TinyModel(std::move(callbacks))->Forward(TinyBatch()).status(),
            absl::UnavailableError("no parameter 5"));
}

TEST(GptModelTest, TheFirstErrorOfAGradientIsReturnedByTheBackward) {
  int32_t calls = 0;
  GptCallbacks callbacks;
  callbacks.on_gradient = [&](const GradientArrival&) {
    return ++calls == 3 ? absl::UnavailableError("third") : absl::OkStatus();
  };
  const auto model = TinyModel(std::move(callbacks));
  ASSERT_TRUE(model->Forward(TinyBatch()).ok());
  EXPECT_EQ(model->Backward(1), absl::UnavailableError("third"));
  EXPECT_EQ(calls, 3);
}

TEST(GptModelTest, ABackwardNeedsAForwardOfItsOwn) {
  const auto model = TinyModel();
  EXPECT_EQ(model->Backward(1).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(model->Forward(TinyBatch()).ok());
  EXPECT_TRUE(model->Backward(1).ok());
  EXPECT_EQ(model->Backward(1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(GptModelTest, AnErrorOfLibTorchIsAStatus) {
  const auto model = TinyModel();
  TokenBatch batch = TinyBatch();
  batch.tokens[0] = 256;
  const auto loss = model->Forward(batch);
  EXPECT_EQ(loss.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(loss.status().message()),
              HasSubstr("LibTorch, forward"));
}

TEST(GptModelTest, AWrongBatchOrWrongFirstValuesAreRefused) {
  TokenBatch batch = TinyBatch();
  batch.context = 5;
  EXPECT_EQ(TinyModel()->Loss(batch).status().code(),
            absl::StatusCode::kInvalidArgument);
  GptModelConfig config = ConfigOf(kTiny);
  config.first_values[3].pop_back();
  EXPECT_THAT(std::string(GptModel::Create(config).status().message()),
              HasSubstr("layer0.norm1.bias"));
  config.first_values.pop_back();
  EXPECT_EQ(GptModel::Create(config).status().code(),
            absl::StatusCode::kInvalidArgument);
  config.shape.width = 0;
  EXPECT_THAT(std::string(GptModel::Create(config).status().message()),
              HasSubstr("width"));
}

class GptPrecisionTest : public ::testing::TestWithParam<DataType> {};

TEST_P(GptPrecisionTest, GradientsAreThoseOfF32RoundedAndSumsAreRoundedAgain) {
  const DataType type = GetParam();
  Gradients narrow, narrow_own, wide, wide_own;
  GptModelConfig config = ConfigOf(kTiny, type);
  config.callbacks = Recording(narrow, narrow_own, type);
  const auto model = ModelOf(config);
  // The same values in f32, so that only the rounding of gradients differs.
  GptModelConfig wide_config = ConfigOf(kTiny);
  for (size_t p = 0; p < config.specs.size(); ++p) {
    const std::vector<float> values = FloatsOf(type, config.first_values[p]);
    wide_config.first_values[p] =
        FirstValuesAt(wide_config.specs[p], values, {});
  }
  wide_config.callbacks = Recording(wide, wide_own);
  const auto wide_model = ModelOf(wide_config);
  // Scaled so that no gradient is subnormal in f16 but those of next to
  // nothing.
  constexpr double kScale = 256;
  const auto backward = [&](GptModel& of) {
    EXPECT_TRUE(of.Forward(TinyBatch()).ok());
    EXPECT_TRUE(of.Backward(kScale).ok());
  };
  const auto rounded = [&](std::vector<float> values) {
    std::vector<std::byte> bytes(values.size() * 2);
    FromFloat(type, values, bytes.data());
    return FloatsOf(type, bytes);
  };
  backward(*model);
  backward(*wide_model);
  for (int32_t p = 0; p < model->parameter_count(); ++p) {
    EXPECT_EQ(narrow[p], rounded(wide[p])) << p;
  }
  const Gradients once = narrow;
  backward(*model);
  for (int32_t p = 0; p < model->parameter_count(); ++p) {
    std::vector<float> doubled = once.at(p);
    for (float& value : doubled) value += value;
    EXPECT_EQ(narrow[p], rounded(doubled)) << p;
  }
}

TEST_P(GptPrecisionTest, TheLossIsNearThatOfF32) {
  const auto loss = ModelOf(ConfigOf(kTiny, GetParam()))->Loss(TinyBatch());
  const auto wide = TinyModel()->Loss(TinyBatch());
  ASSERT_TRUE(loss.ok() && wide.ok());
  // Logits are below 1 here, and each is a sum of products of two roundings.
  EXPECT_NEAR(*loss, *wide, 4 * testing::UnitRoundoff(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Narrow, GptPrecisionTest,
                         ::testing::Values(DataType::kF16, DataType::kBF16));

TEST(GptModelTest, AGradientTooLargeForF16IsInfinite) {
  Gradients accumulated, own;
  GptModelConfig config = ConfigOf(kTiny, DataType::kF16);
  config.callbacks = Recording(accumulated, own, DataType::kF16);
  const auto model = ModelOf(std::move(config));
  ASSERT_TRUE(model->Forward(TinyBatch()).ok());
  ASSERT_TRUE(model->Backward(1e9).ok());
  bool infinite = false;
  for (const float value : accumulated[model->parameter_count() - 1]) {
    infinite = infinite || std::isinf(value);
  }
  EXPECT_TRUE(infinite);
}

TEST(GptModelTest, ExpertsAreUsedInOrderCountedAndGetGradients) {
  ByteGptShape shape = kTiny;
  shape.experts = 4;
  std::vector<int32_t> asked;
  std::map<int32_t, int> arrived;
  GptModelConfig config = ConfigOf(shape);
  config.callbacks.before_use = [&](int32_t p) {
    asked.push_back(p);
    return absl::OkStatus();
  };
  config.callbacks.on_gradient = [&](const GradientArrival& arrival) {
    ++arrived[arrival.parameter];
    return absl::OkStatus();
  };
  const auto model = ModelOf(std::move(config));
  ASSERT_TRUE(model->Loss(TinyBatch()).ok());
  EXPECT_EQ(model->expert_positions(), std::vector<int64_t>(4));
  asked.clear();
  ASSERT_TRUE(model->Forward(TinyBatch()).ok());
  ASSERT_TRUE(model->Backward(1).ok());
  ASSERT_EQ(asked.size(), static_cast<size_t>(model->parameter_count()));
  ASSERT_EQ(arrived.size(), asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(asked[i], static_cast<int32_t>(i));
    EXPECT_EQ(arrived[asked[i]], 1) << i;
  }
  int64_t positions = 0;
  for (const int64_t count : model->expert_positions()) positions += count;
  EXPECT_EQ(positions, 3 * shape.context * shape.layers);
}

}  // namespace
}  // namespace muonshard
