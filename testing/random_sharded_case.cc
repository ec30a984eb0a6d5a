#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "optimizer/unsharded/gradient_places.h"
#include "testing/seeded_random.h"
#include "testing/sharded_case.h"

namespace muonshard::testing {
namespace {

constexpr std::array<DataType, 3> kTypes = {DataType::kF32, DataType::kBF16,
                                            DataType::kF16};

int64_t RandomDimension(SeededRandom& random) {
  if (random.OneIn(6)) return 1;
  return 1 + static_cast<int64_t>(random.Below(24));
}

// Sizes, at least one, that sum to `total` less the padding.
Blocks RandomBlocks(const std::vector<int64_t>& shape, SeededRandom& random) {
  Blocks blocks;
  blocks.dimension = static_cast<int32_t>(random.Below(2));
  int64_t total =
      shape[shape.size() - 2 + static_cast<size_t>(blocks.dimension)];
  if (total > 1 && random.OneIn(3)) {
    blocks.padding = 1 + static_cast<int64_t>(
                             random.Below(static_cast<uint64_t>(total - 1)));
    total -= blocks.padding;
  }
  while (total > 0) {
    const auto size =
        1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(total)));
    blocks.sizes.push_back(size);
    total -= size;
  }
  return blocks;
}

void SetShape(ParameterSpec& spec, SeededRandom& random) {
  if (spec.rule == Rule::kAdamW) {
    spec.shape.push_back(1 + static_cast<int64_t>(random.Below(700)));
    if (random.OneIn(3)) {
      spec.shape.push_back(1 + static_cast<int64_t>(random.Below(5)));
    }
    return;
  }
  if (random.OneIn(4)) {
    spec.shape.push_back(1 + static_cast<int64_t>(random.Below(3)));
  }
  spec.shape.push_back(RandomDimension(random));
  spec.shape.push_back(RandomDimension(random));
  if (random.OneIn(3)) spec.blocks = RandomBlocks(spec.shape, random);
  spec.fan_out_dimension = static_cast<int32_t>(random.Below(2));
}

// The first and the last coordinate, the last alone, or all.
void SetCoordinates(const MeshAxis& axis, ParameterSpec& spec,
                    SeededRandom& random) {
  const uint64_t choice = random.Below(3);
  if (choice == 0 || axis.degree == 1) return;
  std::vector<int32_t>& at = spec.coordinates[axis.name];
  if (choice == 1) at.push_back(0);
  at.push_back(axis.degree - 1);
}

// Axes "tp" and "pp" carry the same data, the others different data.
void SetRoles(const Mesh& mesh, ParameterSpec& spec, SeededRandom& random) {
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name == "data") continue;  // Some axis carries different data.
    const uint64_t choice = random.Below(4);
    if (axis.name != "tp" && axis.name != "pp") {
      if (choice == 0) spec.roles[axis.name] = AxisRole::kReplicate;
      if (choice == 1) spec.roles[axis.name] = AxisRole::kDistinct;
      continue;
    }
    spec.roles[axis.name] =
        std::array{AxisRole::kDuplicate, AxisRole::kPartial,
                   AxisRole::kDistinct, AxisRole::kSlice}[choice];
    if (choice == 3) spec.blockwise = spec.rule == Rule::kMuon;
    if (choice == 1 || choice == 2) SetCoordinates(axis, spec, random);
  }
}

ParameterSpec RandomSpec(int32_t index, const Mesh& mesh,
                         SeededRandom& random) {
  ParameterSpec spec;
  spec.name = absl::StrCat("parameter.", index);
  spec.rule = random.OneIn(2) ? Rule::kMuon : Rule::kAdamW;
  SetShape(spec, random);
  spec.dtype = kTypes[random.Below(kTypes.size())];
  spec.gradient_dtype = kTypes[random.Below(kTypes.size())];
  spec.gradient_mode = static_cast<GradientMode>(random.Below(3));
  if (spec.gradient_mode == GradientMode::kAccumulate) {
    spec.gradient_dtype = DataType::kF32;
  }
  if (random.OneIn(3)) spec.check_ins = CheckIns::kAtMost;
  if (random.OneIn(5)) spec.check_ins = CheckIns::kSyncOnly;
  spec.absent_gradient =
      random.OneIn(2) ? AbsentGradient::kZeros : AbsentGradient::kSkip;
  spec.weight_decay = random.OneIn(2);
  spec.learning_rate_scale = random.OneIn(3) ? 0.5 : 1.0;
  if (random.OneIn(3)) spec.schedule = "warm";
  SetRoles(mesh, spec, random);
  return spec;
}

void SetOptions(OptimizerOptions& options, SeededRandom& random) {
  options.overlap = random.OneIn(2);
  options.gather = random.OneIn(2) ? GatherMode::kEager : GatherMode::kLazy;
  options.master_weights = !random.OneIn(3);
  options.release_gradients = random.OneIn(2);
  options.equality_check_interval = static_cast<int64_t>(random.Below(3));
  options.plan.bucket_bytes_max =
      random.Pick(std::vector<int64_t>{1, 500, 4000, int64_t{25} << 20});
  options.plan.buckets_per_part = static_cast<int32_t>(random.Below(3));
  options.plan.hierarchy = random.OneIn(3) ? Hierarchy::kOff : Hierarchy::kAuto;
  options.muon.learning_rate = 0.02;
  options.muon.nesterov = random.OneIn(2);
  options.muon.scale = static_cast<MuonScale>(random.Below(4));
  options.muon.row_normalization = random.OneIn(3);
  if (random.OneIn(3)) options.muon.weight_decay_kind = WeightDecay::kCautious;
}

// Consecutive ranks, or every other, on one host; as it is where no one order
// of the fold holds for all elements.
void SetHosts(const Mesh& mesh, ShardedCase& sharded, SeededRandom& random) {
  const int32_t count = 1 + static_cast<int32_t>(random.Below(4));
  const bool consecutive = random.OneIn(2);
  for (int32_t r = 0; r < mesh.size(); ++r) {
    sharded.hosts.push_back(
        absl::StrCat("host ", consecutive ? r / count : r % count));
  }
  if (!GradientPlaces(sharded.specs, mesh, HostsOf(sharded, mesh),
                      sharded.options.plan.hierarchy)
           .ok()) {
    sharded.hosts.clear();
  }
}

// What changes from step to step.
void SetSteps(const Mesh& mesh, ShardedCase& sharded, SeededRandom& random) {
  bool has_schedule = false;
  for (const ParameterSpec& spec : sharded.specs) {
    has_schedule = has_schedule || !spec.schedule.empty();
  }
  if (random.OneIn(2)) {
    sharded.step_options = [has_schedule](int64_t step) {
      StepOptions options;
      options.muon_learning_rate = 0.01 * static_cast<double>(step);
      if (has_schedule) {
        options.schedule_factors["warm"] = 0.25 * static_cast<double>(step);
      }
      return options;
    };
  }
  if (random.OneIn(3)) {
    sharded.scaler =
        GradScalerOptions{.init_scale = 1024, .growth_interval = 1};
  }
  const auto parameter_count = static_cast<uint64_t>(sharded.specs.size());
  if (random.OneIn(4)) {
    sharded.overflows.push_back(
        {.rank = Rank(static_cast<int32_t>(
             random.Below(static_cast<uint64_t>(mesh.size())))),
         .parameter = static_cast<int32_t>(random.Below(parameter_count)),
         .step = 1});
  }
  if (random.OneIn(3)) {
    const auto absent = static_cast<int32_t>(random.Below(parameter_count));
    sharded.has_gradient = [absent](Rank rank, int32_t p, int64_t step) {
      return p == absent ? step == 2 : (ToInt(rank) + p + step) % 4 != 0;
    };
  }
}

}  // namespace

ShardedCase RandomShardedCase(uint64_t seed) {
  SeededRandom random(seed);
  ShardedCase sharded;
  sharded.seed = seed;
  sharded.mesh = random.Pick(std::vector<std::string>{
      "data=1", "data=2", "data=3", "data=4", "data=5", "data=8", "dp=2,data=2",
      "data=2,ep=2", "ep=2,data=3", "dp=2,data=2,ep=2", "ep=4,data=2",
      "data=4,tp=2", "tp=2,data=3", "pp=2,data=2,tp=2", "dp=2,data=2,tp=2",
      "pp=3,data=2", "ep=2,pp=2,data=2"});
  const Mesh mesh = *Mesh::Parse(sharded.mesh);
  const int32_t count = 1 + static_cast<int32_t>(random.Below(7));
  for (int32_t p = 0; p < count; ++p) {
    sharded.specs.push_back(RandomSpec(p, mesh, random));
  }
  if (random.OneIn(5)) {
    ParameterSpec huge;
    huge.name = "huge";
    huge.rule = Rule::kMuon;
    huge.shape = {96, 64};
    huge.absent_gradient = AbsentGradient::kZeros;
    SetRoles(mesh, huge, random);
    sharded.specs.push_back(huge);
  }
  SetOptions(sharded.options, random);
  SetHosts(mesh, sharded, random);
  sharded.micro_batches = 1 + static_cast<int32_t>(random.Below(3));
  sharded.clip_norm = random.OneIn(2) ? 0.7 : 0;
  sharded.steps = 3;
  SetSteps(mesh, sharded, random);
  return sharded;
}

}  // namespace muonshard::testing
