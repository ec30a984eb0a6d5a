#include "testing/scaled_run.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"
#include "optimizer/sharded_optimizer.h"
#include "optimizer/unsharded/gradient_places.h"
#include "optimizer/unsharded/unsharded_optimizer.h"
#include "testing/seeded_random.h"

namespace muonshard::testing {
namespace {

Bytes ToBytes(DataType type, const std::vector<float>& values) {
  Bytes bytes(values.size() * ByteWidth(type));
  FromFloat(type, values, bytes.data());
  return bytes;
}

DataType CheckedInType(const ScaledCase& scaled, const ParameterSpec& spec) {
  return spec.gradient_mode == GradientMode::kAccumulate
             ? scaled.accumulated_dtype
             : spec.gradient_dtype;
}

Bytes GradientOf(const ScaledCase& scaled, const ScaledStep& step,
                 double loss_scale, Rank rank, size_t p) {
  const ParameterSpec& spec = scaled.specs[p];
  SeededRandom random(step.seed);
  random.Mix(static_cast<uint64_t>(ToInt(rank)));
  random.Mix(p);
  std::vector<float> values(static_cast<size_t>(ElementCount(spec)));
  for (float& value : values) {
    value = random.Between(-1.0f, 1.0f) * static_cast<float>(loss_scale);
  }
  if (step.overflow.has_value() && step.overflow->rank == ToInt(rank) &&
      step.overflow->parameter == static_cast<int32_t>(p)) {
    values[values.size() / 2] = HUGE_VALF;
  }
  return ToBytes(CheckedInType(scaled, spec), values);
}

// Others at each place where the parameter lives.
Bytes FirstValuesOf(const ScaledCase& scaled, const Mesh& mesh, Rank rank,
                    size_t p) {
  const ParameterSpec& spec = scaled.specs[p];
  SeededRandom random(p);
  const std::vector<int32_t> coordinates = mesh.Coordinates(rank);
  for (size_t a = 0; a < coordinates.size(); ++a) {
    if (RoleOver(spec, mesh.axes()[a].name) != AxisRole::kDistinct) continue;
    random.Mix(static_cast<uint64_t>(coordinates[a]));
  }
  std::vector<float> values(static_cast<size_t>(ElementCount(spec)));
  for (float& value : values) value = random.Between(-0.5f, 0.5f);
  return ToBytes(spec.dtype, values);
}

StepOptions OptionsOf(const ScaledStep& step, const GradScaler& scaler) {
  StepOptions options = step.options;
  if (!step.own_scale) options.loss_scale = scaler.scale();
  return options;
}

template <typename T>
void Append(std::span<const T> values, Bytes& bytes) {
  const auto from = std::as_bytes(values);
  bytes.insert(bytes.end(), from.begin(), from.end());
}

Bytes BytesOf(const ParameterState& state) {
  Bytes bytes;
  Append<int64_t>({&state.step_count, 1}, bytes);
  for (const StatePiece& piece : state.pieces) {
    Append<int64_t>({&piece.parameter_offset, 1}, bytes);
    for (const std::span<const float> values :
         {piece.first, piece.second, piece.master, piece.row_moments}) {
      const auto count = static_cast<int64_t>(values.size());
      Append<int64_t>({&count, 1}, bytes);
      Append<float>(values, bytes);
    }
  }
  return bytes;
}

// Everything that a rank has.
class Program {
 public:
  Program(const ScaledCase& scaled, const Mesh& mesh, Collective& world)
      : scaled_(scaled), mesh_(mesh), rank_(world.rank()) {}

  absl::Status Run(Collective& world, std::vector<AfterStep>& out) {
    absl::StatusOr<GradScaler> scaler = GradScaler::Create(scaled_.scaler);
    if (!scaler.ok()) return scaler.status();
    if (absl::Status s = Bind(world); !s.ok()) return s;
    for (const ScaledStep& step : scaled_.steps) {
      absl::Status s = Take(step, *scaler);
      if (!s.ok()) return s;
      absl::StatusOr<AfterStep> after = Look(*scaler);
      if (!after.ok()) return after.status();
      out.push_back(*std::move(after));
    }
    return optimizer_->Synchronize();
  }

 private:
  bool Lives(size_t p) const { return LivesOn(scaled_.specs[p], mesh_, rank_); }

  absl::Status Bind(Collective& world) {
    const HostMap hosts = HostsOf(scaled_, mesh_);
    OptimizerEnvironment environment;
    environment.host_id = hosts.host_id(hosts.host(rank_));
    auto optimizer = ShardedOptimizer::Create(scaled_.specs, mesh_, world,
                                              scaled_.options, environment);
    if (!optimizer.ok()) return optimizer.status();
    optimizer_ = *std::move(optimizer);
    parameters_.resize(scaled_.specs.size());
    for (size_t p = 0; p < parameters_.size(); ++p) {
      if (!Lives(p)) continue;
      parameters_[p] = FirstValuesOf(scaled_, mesh_, rank_, p);
      absl::Status s = optimizer_->BindParameter(static_cast<int32_t>(p),
                                                 parameters_[p].data());
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status Take(const ScaledStep& step, GradScaler& scaler) {
    const StepOptions options = OptionsOf(step, scaler);
    if (absl::Status s = optimizer_->BeginStep(1); !s.ok()) return s;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      if (!Lives(p)) continue;
      const Bytes gradient =
          GradientOf(scaled_, step, options.loss_scale, rank_, p);
      absl::Status s =
          optimizer_->GradientReady(static_cast<int32_t>(p), gradient.data(),
                                    ElementCount(scaled_.specs[p]),
                                    CheckedInType(scaled_, scaled_.specs[p]));
      if (!s.ok()) return s;
    }
    absl::StatusOr<ReducedGradients> reduced = optimizer_->Finish();
    if (!reduced.ok()) return reduced.status();
    return optimizer_->Step(*std::move(reduced), options);
  }

  // Lets the scaler know of the step, and waits for it.
  absl::StatusOr<AfterStep> Look(GradScaler& scaler) {
    AfterStep after;
    absl::StatusOr<StepOutcome> outcome = optimizer_->Outcome();
    if (!outcome.ok()) return outcome.status();
    after.outcome = *outcome;
    scaler.Update(*outcome);
    after.scaler = scaler.state();
    for (size_t p = 0; p < parameters_.size(); ++p) {
      absl::StatusOr<ParameterState> state =
          optimizer_->State(static_cast<int32_t>(p));
      if (!state.ok()) return state.status();
      after.states.push_back(BytesOf(*state));
    }
    if (absl::Status s = optimizer_->WaitForParameters(); !s.ok()) return s;
    after.parameters = parameters_;
    return after;
  }

  const ScaledCase& scaled_;
  const Mesh& mesh_;
  const Rank rank_;
  std::vector<Bytes> parameters_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
};

// The gradients of one place, borrowed from `memory`.
LocalGradients LocalOf(const ScaledCase& scaled, const ScaledStep& step,
                       double loss_scale, const GradientPlace& place,
                       std::deque<Bytes>& memory) {
  const auto p = static_cast<size_t>(place.parameter);
  LocalGradients local;
  local.dtype = CheckedInType(scaled, scaled.specs[p]);
  local.group_lanes = place.group_lanes;
  local.replica_lanes = place.replica_lanes;
  for (const std::vector<Rank>& group : place.groups) {
    std::vector<RankGradients> ranks;
    for (const Rank rank : group) {
      memory.push_back(GradientOf(scaled, step, loss_scale, rank, p));
      ranks.push_back({memory.back().data()});
    }
    local.groups.push_back(std::move(ranks));
  }
  return local;
}

}  // namespace

HostMap HostsOf(const ScaledCase& scaled, const Mesh& mesh) {
  const int32_t lanes =
      scaled.lanes_per_host == 0 ? mesh.size() : scaled.lanes_per_host;
  std::vector<std::string> ids;
  for (int32_t r = 0; r < mesh.size(); ++r) {
    ids.push_back(absl::StrCat("host", r / lanes));
  }
  return HostMap::FromHostIds(ids);
}

ScaledRun RunScaled(const ScaledCase& scaled, const RuntimeCase& runtime) {
  ScaledRun run;
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(scaled.mesh);
  if (!mesh.ok()) {
    run.results.push_back(mesh.status());
    return run;
  }
  run.ranks.resize(static_cast<size_t>(mesh->size()));
  RankRunOptions options;
  options.runtime = runtime;
  options.size = mesh->size();
  run.results =
      RunOnRanks(options, [&](Collective& world) {
        Program program(scaled, *mesh, world);
        return program.Run(world,
                           run.ranks[static_cast<size_t>(ToInt(world.rank()))]);
      }).results;
  return run;
}

absl::StatusOr<std::vector<std::vector<AfterStep>>> RunScaledUnsharded(
    const ScaledCase& scaled) {
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(scaled.mesh);
  if (!mesh.ok()) return mesh.status();
  const absl::StatusOr<std::vector<GradientPlace>> places =
      GradientPlaces(scaled.specs, *mesh, HostsOf(scaled, *mesh),
                     scaled.options.plan.hierarchy);
  if (!places.ok()) return places.status();
  std::vector<ParameterSpec> specs;
  std::vector<int64_t> divisors;
  std::vector<Bytes> values;
  for (const GradientPlace& place : *places) {
    const auto p = static_cast<size_t>(place.parameter);
    specs.push_back(scaled.specs[p]);
    divisors.push_back(place.divisor);
    values.push_back(
        FirstValuesOf(scaled, *mesh, place.groups.front().front(), p));
  }
  absl::StatusOr<UnshardedOptimizer> optimizer =
      UnshardedOptimizer::Create(specs, scaled.options, divisors, values);
  if (!optimizer.ok()) return optimizer.status();
  absl::StatusOr<GradScaler> scaler = GradScaler::Create(scaled.scaler);
  if (!scaler.ok()) return scaler.status();
  std::vector<std::vector<AfterStep>> ranks(static_cast<size_t>(mesh->size()));
  for (const ScaledStep& step : scaled.steps) {
    UnshardedStepInput input;
    input.options = OptionsOf(step, *scaler);
    std::deque<Bytes> memory;
    for (const GradientPlace& place : *places) {
      input.gradients.push_back(
          LocalOf(scaled, step, input.options.loss_scale, place, memory));
    }
    absl::StatusOr<StepOutcome> outcome = optimizer->Step(input);
    if (!outcome.ok()) return outcome.status();
    scaler->Update(*outcome);
    for (std::vector<AfterStep>& of_rank : ranks) {
      of_rank.push_back({.outcome = *outcome,
                         .scaler = scaler->state(),
                         .parameters = std::vector<Bytes>(scaled.specs.size()),
                         .states = {}});
    }
    for (size_t i = 0; i < places->size(); ++i) {
      const std::span<const std::byte> value = optimizer->parameter(i);
      for (const Rank rank : RanksOf((*places)[i])) {
        ranks[static_cast<size_t>(ToInt(rank))]
            .back()
            .parameters[static_cast<size_t>((*places)[i].parameter)]
            .assign(value.begin(), value.end());
      }
    }
  }
  return ranks;
}

}  // namespace muonshard::testing
