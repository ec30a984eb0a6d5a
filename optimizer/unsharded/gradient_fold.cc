#include "optimizer/unsharded/gradient_fold.h"

#include <cstring>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"

namespace muonshard {
namespace {

using Bytes = std::vector<std::byte>;

absl::Status CheckGradients(const ParameterSpec& spec,
                            const LocalGradients& gradients, int64_t divisor) {
  const auto error = [&spec](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter \"", spec.name, "\": ", what...));
  };
  if (divisor < 1) return error("want a divisor >= 1, got ", divisor);
  const DataType bucket_type = spec.gradient_dtype;
  const bool accumulates = spec.gradient_mode == GradientMode::kAccumulate;
  if (accumulates ? !IsFloating(gradients.dtype)
                  : gradients.dtype != bucket_type) {
    return error("want gradients of ",
                 accumulates ? "a floating type" : DataTypeName(bucket_type),
                 ", got ", DataTypeName(gradients.dtype));
  }
  for (const auto& group : gradients.groups) {
    if (group.empty() || group.size() != gradients.groups[0].size()) {
      return error("want shard groups of one size >= 1, got ",
                   gradients.groups[0].size(), " and ", group.size());
    }
    for (const RankGradients& rank : group) {
      if (spec.gradient_mode == GradientMode::kCopyLast && rank.size() > 1) {
        return error("want the one gradient that was accumulated, got ",
                     rank.size());
      }
    }
  }
  return absl::OkStatus();
}

// One rank's contribution, in the bucket type.
Bytes Contribution(const ParameterSpec& spec, DataType dtype,
                   const RankGradients& micro_batches) {
  const DataType bucket_type = spec.gradient_dtype;
  const size_t count = static_cast<size_t>(ElementCount(spec));
  Bytes contribution(count * ByteWidth(bucket_type));
  if (micro_batches.empty()) return contribution;
  if (spec.gradient_mode == GradientMode::kCopyLast) {
    std::memcpy(contribution.data(), micro_batches[0], contribution.size());
    return contribution;
  }
  std::vector<float> sum(count);
  for (const void* micro_batch : micro_batches) {
    AddToFloat(dtype, micro_batch, sum);
    FromFloat(bucket_type, sum, contribution.data());
    ToFloat(bucket_type, contribution.data(), sum);
  }
  return contribution;
}

// One level: the sum of `contributions`, scaled and rounded.
Bytes FoldLevel(DataType bucket_type, const std::vector<Bytes>& contributions,
                float scale) {
  Bytes result(contributions[0].size());
  std::vector<float> sum(result.size() / ByteWidth(bucket_type));
  ToFloat(bucket_type, contributions[0].data(), sum);
  for (size_t i = 1; i < contributions.size(); ++i) {
    AddToFloat(bucket_type, contributions[i].data(), sum);
  }
  for (float& value : sum) value *= scale;
  FromFloat(bucket_type, sum, result.data());
  return result;
}

}  // namespace

bool IsAbsent(const LocalGradients& gradients) {
  for (const auto& group : gradients.groups) {
    for (const RankGradients& rank : group) {
      if (!rank.empty()) return false;
    }
  }
  return true;
}

absl::StatusOr<Bytes> FoldGradients(const ParameterSpec& spec,
                                    const LocalGradients& gradients,
                                    int64_t divisor) {
  if (absl::Status s = CheckGradients(spec, gradients, divisor); !s.ok()) {
    return s;
  }
  const DataType bucket_type = spec.gradient_dtype;
  if (gradients.groups.empty()) {
    return Contribution(spec, gradients.dtype, {});
  }
  const bool two_levels = gradients.groups.size() > 1;
  // What the first of two levels divides by.
  const double first_divisor =
      two_levels && bucket_type != DataType::kF32
          ? static_cast<double>(gradients.groups[0].size())
          : 1.0;
  const float last_scale =
      static_cast<float>(first_divisor / static_cast<double>(divisor));
  const float first_scale =
      two_levels ? static_cast<float>(1.0 / first_divisor) : last_scale;

  std::vector<Bytes> group_results;
  for (const auto& group : gradients.groups) {
    std::vector<Bytes> contributions;
    for (const RankGradients& rank : group) {
      contributions.push_back(Contribution(spec, gradients.dtype, rank));
    }
    group_results.push_back(FoldLevel(bucket_type, contributions, first_scale));
  }
  if (!two_levels) return std::move(group_results[0]);
  return FoldLevel(bucket_type, group_results, last_scale);
}

}  // namespace muonshard
