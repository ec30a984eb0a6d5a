#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"
#include "optimizer/unsharded/unsharded_optimizer.h"
#include "testing/sharded_case.h"

namespace muonshard::testing {
namespace {

// One parameter at one place where it lives, and the ranks that hold it there:
// [replica][rank of the shard group], in fold order.
struct Placed {
  int32_t parameter = 0;
  std::vector<std::vector<Rank>> groups;
};

std::vector<int> AxesWithRole(const ParameterSpec& spec, const Mesh& mesh,
                              AxisRole role) {
  std::vector<int> axes;
  for (size_t a = 0; a < mesh.axes().size(); ++a) {
    if (RoleOver(spec, mesh.axes()[a].name) == role) {
      axes.push_back(static_cast<int>(a));
    }
  }
  return axes;
}

// On loopback all ranks are on one host, so (host, lane) order is rank order.
std::vector<Placed> PlacesOf(int32_t p, const ParameterSpec& spec,
                             const Mesh& mesh) {
  std::vector<Placed> places;
  const std::vector<int> shard = AxesWithRole(spec, mesh, AxisRole::kShard);
  const std::vector<int> replicate =
      AxesWithRole(spec, mesh, AxisRole::kReplicate);
  std::vector<int> together = shard;
  together.insert(together.end(), replicate.begin(), replicate.end());
  for (const std::vector<Rank>& place : mesh.Groups(together)) {
    Placed placed{.parameter = p, .groups = {}};
    for (const Rank first : mesh.GroupOf(place.front(), replicate)) {
      placed.groups.push_back(mesh.GroupOf(first, shard));
    }
    places.push_back(std::move(placed));
  }
  return places;
}

// The gradients of a step as the fold wants them, and the memory behind them.
struct StepGradients {
  std::vector<LocalGradients> local;
  std::vector<std::vector<ParameterBytes>> memory;
};

RankGradients OfRank(const ShardedCase& sharded, Rank rank, int32_t p,
                     int64_t step, StepGradients& gradients) {
  if (sharded.has_gradient && !sharded.has_gradient(rank, p, step)) return {};
  const ParameterSpec& spec = sharded.specs[static_cast<size_t>(p)];
  std::vector<ParameterBytes> runs;
  for (int32_t m = 0; m < sharded.micro_batches; ++m) {
    runs.push_back(GradientOf(sharded, rank, p, step, m));
  }
  if (spec.gradient_mode == GradientMode::kCopyLast) {
    // The caller accumulates, in the gradient's type, from zero.
    const DataType type = spec.gradient_dtype;
    const auto count = static_cast<size_t>(ElementCount(spec));
    std::vector<float> sum(count);
    std::vector<float> next(count);
    ParameterBytes total(count * ByteWidth(type));
    for (const ParameterBytes& run : runs) {
      ToFloat(type, run.data(), next);
      for (size_t i = 0; i < count; ++i) sum[i] += next[i];
      FromFloat(type, sum, total.data());
      ToFloat(type, total.data(), sum);
    }
    runs = {total};
  }
  gradients.memory.push_back(std::move(runs));
  RankGradients pointers;
  for (const ParameterBytes& run : gradients.memory.back()) {
    pointers.push_back(run.data());
  }
  return pointers;
}

StepGradients GradientsOf(const ShardedCase& sharded,
                          const std::vector<Placed>& places, int64_t step) {
  StepGradients gradients;
  for (const Placed& place : places) {
    LocalGradients local;
    local.dtype =
        sharded.specs[static_cast<size_t>(place.parameter)].gradient_dtype;
    for (const std::vector<Rank>& group : place.groups) {
      std::vector<RankGradients> ranks;
      for (const Rank rank : group) {
        ranks.push_back(
            OfRank(sharded, rank, place.parameter, step, gradients));
      }
      local.groups.push_back(std::move(ranks));
    }
    gradients.local.push_back(std::move(local));
  }
  return gradients;
}

// The product of the degrees of all axes that carry different data.
int64_t DivisorOf(const ShardedCase& sharded, const Mesh& mesh) {
  int64_t divisor = 1;
  for (const MeshAxis& axis : mesh.axes()) {
    for (const ParameterSpec& spec : sharded.specs) {
      if (RoleOver(spec, axis.name) == AxisRole::kDistinct) continue;
      divisor *= axis.degree;
      break;
    }
  }
  return divisor;
}

}  // namespace

absl::StatusOr<UnshardedRun> RunUnsharded(const ShardedCase& sharded) {
  absl::StatusOr<Mesh> mesh = Mesh::Parse(sharded.mesh);
  if (!mesh.ok()) return mesh.status();
  std::vector<Placed> places;
  std::vector<ParameterSpec> specs;
  std::vector<ParameterBytes> values;
  for (size_t p = 0; p < sharded.specs.size(); ++p) {
    const auto index = static_cast<int32_t>(p);
    for (Placed& place : PlacesOf(index, sharded.specs[p], *mesh)) {
      specs.push_back(sharded.specs[p]);
      specs.back().name = absl::StrCat(specs.back().name, "@", places.size());
      values.push_back(
          FirstValuesOf(sharded, *mesh, place.groups.front().front(), index));
      places.push_back(std::move(place));
    }
  }
  const std::vector<int64_t> divisors(specs.size(), DivisorOf(sharded, *mesh));
  absl::StatusOr<UnshardedOptimizer> optimizer =
      UnshardedOptimizer::Create(specs, sharded.options, divisors, values);
  if (!optimizer.ok()) return optimizer.status();
  UnshardedRun run;
  for (int64_t step = 1; step <= sharded.steps; ++step) {
    StepGradients gradients = GradientsOf(sharded, places, step);
    UnshardedStepInput input;
    input.gradients = std::move(gradients.local);
    input.options.clip_norm = sharded.clip_norm;
    absl::StatusOr<StepOutcome> outcome = optimizer->Step(input);
    if (!outcome.ok()) return outcome.status();
    run.outcomes.push_back(*outcome);
  }
  run.parameters.assign(static_cast<size_t>(mesh->size()),
                        std::vector<ParameterBytes>(sharded.specs.size()));
  for (size_t i = 0; i < places.size(); ++i) {
    const std::span<const std::byte> value = optimizer->parameter(i);
    for (const std::vector<Rank>& group : places[i].groups) {
      for (const Rank rank : group) {
        run.parameters[static_cast<size_t>(ToInt(rank))]
                      [static_cast<size_t>(places[i].parameter)]
                          .assign(value.begin(), value.end());
      }
    }
  }
  return run;
}

}  // namespace muonshard::testing
