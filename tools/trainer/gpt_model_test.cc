#include "tools/trainer/gpt_model.h"

#include <ATen/Parallel.h>
#include <cblas.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

std::unique_ptr<GptModel> TinyModel(GptCallbacks callbacks = {}) {
  UseOneThread();
  auto model =
      GptModel::Create(kTiny, GptInitialValues(kTiny, 1), std::move(callbacks));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
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

GptCallbacks Recording(Gradients& accumulated, Gradients& own) {
  GptCallbacks callbacks;
  callbacks.on_gradient = [&](const GradientArrival& arrival) {
    accumulated[arrival.parameter] = {arrival.accumulated.begin(),
                                      arrival.accumulated.end()};
    own[arrival.parameter] = {arrival.own.begin(), arrival.own.end()};
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
      const std::vector<float> kept(model->parameter(p).begin(),
                                    model->parameter(p).end());
      for (size_t i = 0; i < gradient.size(); ++i) {
        model->parameter(p)[i] +=
            static_cast<float>(distance * gradient[i] / norm);
      }
      const double loss = *model->Loss(batch);
      std::copy(kept.begin(), kept.end(), model->parameter(p).begin());
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
  auto values = GptInitialValues(kTiny, 1);
  values[3].pop_back();
  EXPECT_THAT(
      std::string(GptModel::Create(kTiny, values, {}).status().message()),
      HasSubstr("layer0.norm1.bias"));
  values.pop_back();
  EXPECT_EQ(GptModel::Create(kTiny, values, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GptModel::Create({.width = 0}, {}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muonshard
