#include "tools/trainer/verify.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/data_type.h"

namespace muonshard {
namespace {

std::vector<std::byte> BytesOf(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Verifier>> Verifier::Create(Runtime& runtime,
                                                           VerifySetup setup) {
  std::vector<std::vector<std::byte>> parameters;
  for (const std::vector<float>& values : setup.initial_values) {
    parameters.push_back(BytesOf(values));
  }
  const std::vector<int64_t> divisors(setup.specs.size(), setup.ranks);
  absl::StatusOr<UnshardedOptimizer> optimizer = UnshardedOptimizer::Create(
      setup.specs, setup.options, divisors, std::move(parameters));
  if (!optimizer.ok()) return optimizer.status();
  return std::unique_ptr<Verifier>(
      new Verifier(runtime, std::move(setup), *std::move(optimizer)));
}

Verifier::Verifier(Runtime& runtime, VerifySetup setup,
                   UnshardedOptimizer optimizer)
    : setup_(std::move(setup)),
      mutex_(runtime.NewMutex()),
      optimizer_(std::move(optimizer)) {}

Verifier::StepGradients& Verifier::OfStep(int64_t step) {
  StepGradients& gradients = steps_[step];
  if (gradients.sums.empty()) {
    gradients.sums.resize(static_cast<size_t>(setup_.ranks),
                          std::vector<std::vector<float>>(setup_.specs.size()));
  }
  return gradients;
}

void Verifier::Deposit(int32_t rank, int64_t step, int32_t parameter,
                       std::span<const float> gradient) {
  const MutexLock lock(*mutex_);
  std::vector<float>& sum =
      OfStep(step)
          .sums[static_cast<size_t>(rank)][static_cast<size_t>(parameter)];
  if (sum.empty()) {
    sum.assign(gradient.begin(), gradient.end());
    return;
  }
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
}

absl::Status Verifier::EndBackward(int32_t rank, int64_t step) {
  const MutexLock lock(*mutex_);
  if (!status_.ok()) return status_;
  StepGradients& gradients = OfStep(step);
  if (++gradients.ranks_done < setup_.ranks) return absl::OkStatus();
  status_ = TakeStep(gradients);
  if (!status_.ok()) {
    status_ = absl::Status(
        status_.code(), absl::StrCat("verify: step ", step, " on rank ", rank,
                                     ": ", status_.message()));
  }
  steps_.erase(step);
  return status_;
}

absl::Status Verifier::TakeStep(const StepGradients& gradients) {
  UnshardedStepInput input;
  input.options.clip_norm = setup_.clip_norm;
  for (size_t p = 0; p < setup_.specs.size(); ++p) {
    std::vector<RankGradients> ranks;
    for (const auto& of_rank : gradients.sums) {
      ranks.push_back(of_rank[p].empty() ? RankGradients{}
                                         : RankGradients{of_rank[p].data()});
    }
    input.gradients.emplace_back().groups.push_back(std::move(ranks));
  }
  return optimizer_.Step(input).status();
}

void Verifier::Compare(int32_t parameter, std::span<const float> values,
                       VerifyDifference& difference) const {
  const MutexLock lock(*mutex_);
  const std::span<const std::byte> bytes =
      optimizer_.parameter(static_cast<size_t>(parameter));
  std::vector<float> expected(values.size());
  std::memcpy(expected.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::bit_cast<uint32_t>(values[i]) ==
        std::bit_cast<uint32_t>(expected[i])) {
      continue;
    }
    ++difference.different_count;
    const double distance =
        std::abs(static_cast<double>(values[i]) - expected[i]);
    // A NaN must not get lost in a comparison.
    difference.max_abs = std::isnan(distance)
                             ? std::numeric_limits<double>::quiet_NaN()
                             : std::max(difference.max_abs, distance);
  }
}

}  // namespace muonshard
