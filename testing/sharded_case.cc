#include "testing/sharded_case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"
#include "testing/seeded_random.h"

namespace muonshard::testing {
namespace {

ParameterBytes ToBytes(DataType type, const std::vector<float>& values) {
  ParameterBytes bytes(values.size() * ByteWidth(type));
  FromFloat(type, values, bytes.data());
  return bytes;
}

// sum += gradient, rounded to `type` after each element, as a caller that
// accumulates does.
void Accumulate(DataType type, const ParameterBytes& gradient, std::byte* sum) {
  const size_t count = gradient.size() / ByteWidth(type);
  std::vector<float> a(count);
  std::vector<float> b(count);
  ToFloat(type, sum, a);
  ToFloat(type, gradient.data(), b);
  for (size_t i = 0; i < count; ++i) a[i] += b[i];
  FromFloat(type, a, sum);
}

// A number for the place where a parameter lives: its coordinates over the
// axes on which it is distinct.
uint64_t PlaceOf(const ParameterSpec& spec, const Mesh& mesh, Rank rank) {
  uint64_t place = 0;
  const std::vector<int32_t> coordinates = mesh.Coordinates(rank);
  for (size_t a = 0; a < coordinates.size(); ++a) {
    const MeshAxis& axis = mesh.axes()[a];
    if (RoleOver(spec, axis.name) != AxisRole::kDistinct) continue;
    place = place * static_cast<uint64_t>(axis.degree) +
            static_cast<uint64_t>(coordinates[a]);
  }
  return place;
}

// What a rank hands over for one parameter in one step.
struct CallerGradient {
  ParameterBytes sum;  // Of kCopyLast, and of kView without a view.
  std::byte* view = nullptr;
};

absl::Status CheckIn(const ShardedCase& sharded, Rank rank, int32_t p,
                     int64_t step, int32_t micro_batch,
                     CallerGradient& gradient, ShardedOptimizer& optimizer) {
  const ParameterSpec& spec = sharded.specs[static_cast<size_t>(p)];
  const int64_t count = ElementCount(spec);
  const DataType type = spec.gradient_dtype;
  const ParameterBytes fresh = GradientOf(sharded, rank, p, step, micro_batch);
  if (spec.gradient_mode == GradientMode::kAccumulate) {
    return optimizer.GradientReady(p, fresh.data(), count, type);
  }
  if (gradient.view != nullptr) {
    Accumulate(type, fresh, gradient.view);
    return optimizer.GradientReady(p, gradient.view, count, type);
  }
  if (gradient.sum.empty()) gradient.sum.resize(fresh.size());
  Accumulate(type, fresh, gradient.sum.data());
  return optimizer.GradientReady(p, gradient.sum.data(), count, type);
}

absl::Status RunProgram(const ShardedCase& sharded, Collective& world,
                        ShardedRun& run) {
  const Rank rank = world.rank();
  const auto r = static_cast<size_t>(ToInt(rank));
  absl::StatusOr<Mesh> mesh = Mesh::Parse(sharded.mesh);
  if (!mesh.ok()) return mesh.status();
  std::vector<ParameterBytes>& parameters = run.parameters[r];
  for (size_t p = 0; p < sharded.specs.size(); ++p) {
    parameters.push_back(
        FirstValuesOf(sharded, *mesh, rank, static_cast<int32_t>(p)));
  }
  absl::StatusOr<std::unique_ptr<ShardedOptimizer>> optimizer =
      ShardedOptimizer::Create(sharded.specs, *mesh, world, sharded.options);
  if (!optimizer.ok()) return optimizer.status();
  for (size_t p = 0; p < parameters.size(); ++p) {
    const absl::Status s =
        (*optimizer)
            ->BindParameter(static_cast<int32_t>(p), parameters[p].data());
    if (!s.ok()) return s;
  }
  for (int64_t step = 1; step <= sharded.steps; ++step) {
    absl::Status s = TakeStep(sharded, rank, step, **optimizer);
    if (!s.ok()) return s;
    absl::StatusOr<StepOutcome> outcome = (*optimizer)->Outcome();
    if (!outcome.ok()) return outcome.status();
    run.outcomes[r].push_back(*outcome);
    for (size_t p = 0; p < parameters.size(); ++p) {
      s = (*optimizer)->WaitForParameters(static_cast<int32_t>(p));
      if (!s.ok()) return s;
    }
  }
  if (absl::Status s = (*optimizer)->Synchronize(); !s.ok()) return s;
  absl::StatusOr<OptimizerStatistics> statistics = (*optimizer)->Statistics();
  if (!statistics.ok()) return statistics.status();
  run.statistics[r] = *statistics;
  return absl::OkStatus();
}

}  // namespace

ParameterBytes GradientOf(const ShardedCase& sharded, Rank rank, int32_t p,
                          int64_t step, int32_t micro_batch) {
  const ParameterSpec& spec = sharded.specs[static_cast<size_t>(p)];
  SeededRandom random(sharded.seed);
  random.Mix(static_cast<uint64_t>(ToInt(rank)));
  random.Mix(static_cast<uint64_t>(p));
  random.Mix(static_cast<uint64_t>(step));
  random.Mix(static_cast<uint64_t>(micro_batch));
  std::vector<float> values(static_cast<size_t>(ElementCount(spec)));
  for (float& value : values) value = random.Between(-1.0f, 1.0f);
  return ToBytes(spec.gradient_dtype, values);
}

ParameterBytes FirstValuesOf(const ShardedCase& sharded, const Mesh& mesh,
                             Rank rank, int32_t p) {
  const ParameterSpec& spec = sharded.specs[static_cast<size_t>(p)];
  SeededRandom random(sharded.seed + 1);
  random.Mix(PlaceOf(spec, mesh, rank));
  random.Mix(static_cast<uint64_t>(p));
  std::vector<float> values(static_cast<size_t>(ElementCount(spec)));
  for (float& value : values) value = random.Between(-0.5f, 0.5f);
  return ToBytes(spec.dtype, values);
}

absl::Status TakeStep(const ShardedCase& sharded, Rank rank, int64_t step,
                      ShardedOptimizer& optimizer) {
  if (absl::Status s = optimizer.BeginStep(sharded.micro_batches); !s.ok()) {
    return s;
  }
  std::vector<CallerGradient> gradients(sharded.specs.size());
  for (size_t p = 0; p < gradients.size(); ++p) {
    gradients[p].view = static_cast<std::byte*>(
        optimizer.GradientView(static_cast<int32_t>(p)));
  }
  SeededRandom random(sharded.seed + 2);
  random.Mix(static_cast<uint64_t>(ToInt(rank)));
  random.Mix(static_cast<uint64_t>(step));
  std::vector<int32_t> order(sharded.specs.size());
  for (size_t p = 0; p < order.size(); ++p) order[p] = static_cast<int32_t>(p);
  for (int32_t m = 0; m < sharded.micro_batches; ++m) {
    random.Shuffle(order);
    for (const int32_t p : order) {
      if (sharded.has_gradient && !sharded.has_gradient(rank, p, step)) {
        continue;
      }
      const absl::Status s =
          CheckIn(sharded, rank, p, step, m, gradients[static_cast<size_t>(p)],
                  optimizer);
      if (!s.ok()) return s;
    }
  }
  absl::StatusOr<ReducedGradients> reduced = optimizer.Finish();
  if (!reduced.ok()) return reduced.status();
  return optimizer.Step(*std::move(reduced),
                        {.clip_norm = sharded.clip_norm,
                         .muon_learning_rate = std::nullopt,
                         .adamw_learning_rate = std::nullopt});
}

ShardedRun RunSharded(const ShardedCase& sharded, const RuntimeCase& runtime) {
  ShardedRun run;
  absl::StatusOr<Mesh> mesh = Mesh::Parse(sharded.mesh);
  if (!mesh.ok()) {
    run.results.push_back(mesh.status());
    return run;
  }
  const auto size = static_cast<size_t>(mesh->size());
  run.parameters.resize(size);
  run.outcomes.resize(size);
  run.statistics.resize(size);
  RankRunOptions options;
  options.runtime = runtime;
  options.size = mesh->size();
  RankRun ranks = RunOnRanks(options, [&](Collective& world) {
    return RunProgram(sharded, world, run);
  });
  run.results = std::move(ranks.results);
  run.trace_hash = ranks.trace_hash;
  return run;
}

std::string Describe(const ShardedCase& sharded) {
  std::string text = absl::StrCat(
      "seed ", sharded.seed, ", mesh ", sharded.mesh, ", bucket_bytes_max ",
      sharded.options.plan.bucket_bytes_max, ", overlap ",
      sharded.options.overlap ? "on" : "off", ", micro-batches ",
      sharded.micro_batches, ", clip ", sharded.clip_norm, "\n");
  for (const ParameterSpec& spec : sharded.specs) {
    absl::StrAppend(&text, "  ", spec.name, " ", RuleName(spec.rule), " ",
                    DataTypeName(spec.dtype), " gradient ",
                    DataTypeName(spec.gradient_dtype), " mode ",
                    static_cast<int>(spec.gradient_mode), " [");
    for (const int64_t dim : spec.shape) absl::StrAppend(&text, " ", dim);
    absl::StrAppend(&text, " ]");
    for (const auto& [axis, role] : spec.roles) {
      absl::StrAppend(&text, " ", axis, ":", AxisRoleName(role));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace muonshard::testing
