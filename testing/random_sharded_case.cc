#include <array>
#include <string>

#include "absl/strings/str_cat.h"
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

// Sizes that sum to `total`.
std::vector<int64_t> RandomBlocks(int64_t total, SeededRandom& random) {
  std::vector<int64_t> sizes;
  while (total > 0) {
    const auto size =
        1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(total)));
    sizes.push_back(size);
    total -= size;
  }
  return sizes;
}

ParameterSpec RandomSpec(int32_t index, const Mesh& mesh,
                         SeededRandom& random) {
  ParameterSpec spec;
  spec.name = absl::StrCat("parameter.", index);
  spec.rule = random.OneIn(2) ? Rule::kMuon : Rule::kAdamW;
  if (spec.rule == Rule::kMuon) {
    if (random.OneIn(4)) {
      spec.shape.push_back(1 + static_cast<int64_t>(random.Below(3)));
    }
    spec.shape.push_back(RandomDimension(random));
    spec.shape.push_back(RandomDimension(random));
    if (random.OneIn(3)) {
      spec.blocks.dimension = static_cast<int32_t>(random.Below(2));
      const size_t dimension =
          spec.shape.size() - 2 + static_cast<size_t>(spec.blocks.dimension);
      spec.blocks.sizes = RandomBlocks(spec.shape[dimension], random);
    }
    spec.fan_out_dimension = static_cast<int32_t>(random.Below(2));
  } else {
    spec.shape.push_back(1 + static_cast<int64_t>(random.Below(700)));
    if (random.OneIn(3)) {
      spec.shape.push_back(1 + static_cast<int64_t>(random.Below(5)));
    }
  }
  spec.dtype = kTypes[random.Below(kTypes.size())];
  spec.gradient_dtype = kTypes[random.Below(kTypes.size())];
  spec.gradient_mode = static_cast<GradientMode>(random.Below(3));
  if (spec.gradient_mode == GradientMode::kAccumulate) {
    spec.gradient_dtype = DataType::kF32;
  }
  if (random.OneIn(3)) spec.check_ins = CheckIns::kAtMost;
  spec.weight_decay = random.OneIn(2);
  spec.learning_rate_scale = random.OneIn(3) ? 0.5 : 1.0;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name == "data") continue;  // Some axis carries different data.
    const uint64_t role = random.Below(4);
    if (role == 0) spec.roles[axis.name] = AxisRole::kReplicate;
    if (role == 1) spec.roles[axis.name] = AxisRole::kDistinct;
  }
  return spec;
}

}  // namespace

ShardedCase RandomShardedCase(uint64_t seed) {
  SeededRandom random(seed);
  ShardedCase sharded;
  sharded.seed = seed;
  sharded.mesh = random.Pick(std::vector<std::string>{
      "data=1", "data=2", "data=3", "data=4", "data=5", "data=8", "dp=2,data=2",
      "data=2,ep=2", "ep=2,data=3", "dp=2,data=2,ep=2", "ep=4,data=2"});
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
    sharded.specs.push_back(huge);
  }
  OptimizerOptions& options = sharded.options;
  options.overlap = random.OneIn(2);
  options.plan.bucket_bytes_max =
      random.Pick(std::vector<int64_t>{1, 500, 4000, int64_t{25} << 20});
  options.plan.buckets_per_part = static_cast<int32_t>(random.Below(3));
  options.muon.learning_rate = 0.02;
  options.muon.nesterov = random.OneIn(2);
  options.muon.scale = static_cast<MuonScale>(random.Below(4));
  sharded.micro_batches = 1 + static_cast<int32_t>(random.Below(3));
  sharded.clip_norm = random.OneIn(2) ? 0.7 : 0;
  return sharded;
}

}  // namespace muonshard::testing
