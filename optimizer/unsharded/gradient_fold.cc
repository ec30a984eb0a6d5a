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
  const auto fits = [](int32_t lanes, size_t size) {
    return lanes == 0 || (lanes > 0 && size % static_cast<size_t>(lanes) == 0);
  };
  if (!fits(gradients.replica_lanes, gradients.groups.size())) {
    return error("want replica lanes that divide ", gradients.groups.size(),
                 " shard groups, got ", gradients.replica_lanes);
  }
  if (!gradients.group_lanes.empty() &&
      gradients.group_lanes.size() != gradients.groups.size()) {
    return error("want the lanes of ", gradients.groups.size(),
                 " shard groups, got ", gradients.group_lanes.size());
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
  for (const int32_t lanes : gradients.group_lanes) {
    if (fits(lanes, gradients.groups[0].size())) continue;
    return error("want group lanes that divide ", gradients.groups[0].size(),
                 " ranks, got ", lanes);
  }
  return absl::OkStatus();
}

// One rank's contribution, in the bucket type.
Bytes Contribution(const ParameterSpec& spec, DataType dtype,
                   const RankGradients& check_ins) {
  const DataType bucket_type = spec.gradient_dtype;
  const size_t count = static_cast<size_t>(ElementCount(spec));
  Bytes contribution(count * ByteWidth(bucket_type));
  if (check_ins.empty()) return contribution;
  if (spec.gradient_mode == GradientMode::kCopyLast) {
    std::memcpy(contribution.data(), check_ins[0], contribution.size());
    return contribution;
  }
  std::vector<float> sum(count);
  for (const void* gradient : check_ins) {
    AddToFloat(dtype, gradient, sum);
    FromFloat(bucket_type, sum, contribution.data());
    ToFloat(bucket_type, contribution.data(), sum);
  }
  return contribution;
}

// One level: the sum of `contributions`, scaled and rounded.
Bytes FoldLevel(DataType bucket_type, std::span<const Bytes> contributions,
                double scale) {
  Bytes result(contributions[0].size());
  std::vector<float> sum(result.size() / ByteWidth(bucket_type));
  ToFloat(bucket_type, contributions[0].data(), sum);
  for (size_t i = 1; i < contributions.size(); ++i) {
    AddToFloat(bucket_type, contributions[i].data(), sum);
  }
  const float factor = static_cast<float>(scale);
  for (float& value : sum) value *= factor;
  FromFloat(bucket_type, sum, result.data());
  return result;
}

// One call, of one level or two.
Bytes FoldCall(DataType bucket_type, std::span<const Bytes> contributions,
               int32_t lane_count, double scale) {
  const auto lanes = static_cast<size_t>(lane_count);
  if (lanes <= 1 || lanes == contributions.size()) {
    return FoldLevel(bucket_type, contributions, scale);
  }
  const bool wide = bucket_type == DataType::kF32;
  const double per_lane = static_cast<double>(lane_count);
  std::vector<Bytes> hosts;
  for (size_t first = 0; first < contributions.size(); first += lanes) {
    hosts.push_back(FoldLevel(bucket_type, contributions.subspan(first, lanes),
                              wide ? 1 : 1 / per_lane));
  }
  return FoldLevel(bucket_type, hosts, wide ? scale : scale * per_lane);
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
  const bool two_calls = gradients.groups.size() > 1;
  // What the first of two calls divides by.
  const double first_divisor =
      two_calls && bucket_type != DataType::kF32
          ? static_cast<double>(gradients.groups[0].size())
          : 1.0;
  const double last_scale = first_divisor / static_cast<double>(divisor);
  const double first_scale = two_calls ? 1.0 / first_divisor : last_scale;

  std::vector<Bytes> group_results;
  for (size_t g = 0; g < gradients.groups.size(); ++g) {
    std::vector<Bytes> contributions;
    for (const RankGradients& rank : gradients.groups[g]) {
      contributions.push_back(Contribution(spec, gradients.dtype, rank));
    }
    const int32_t lanes =
        gradients.group_lanes.empty() ? 0 : gradients.group_lanes[g];
    group_results.push_back(
        FoldCall(bucket_type, contributions, lanes, first_scale));
  }
  if (!two_calls) return std::move(group_results[0]);
  return FoldCall(bucket_type, group_results, gradients.replica_lanes,
                  last_scale);
}

}  // namespace muonshard
