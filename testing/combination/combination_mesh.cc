#include "testing/combination/combination_mesh.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "topology/mesh.h"

namespace muonshard::testing {
namespace {

// Overflows happen in the gradient of this one.
constexpr int32_t kOverflowing = 0;

bool IsModelAxis(const std::string& axis) {
  return axis == "tp" || axis == "pp";
}

// Makes the parameters of one mesh and combination.
class SpecMaker {
 public:
  SpecMaker(const Mesh& mesh, const Combination& combination)
      : mesh_(mesh), combination_(combination) {
    for (const MeshAxis& axis : mesh.axes()) {
      if (IsModelAxis(axis.name)) {
        if (model_axis_.name.empty()) model_axis_ = axis;
      } else {
        if (replicate_axis_.empty()) replicate_axis_ = axis.name;
        expert_axis_ = axis.name;
      }
    }
  }

  std::vector<ParameterSpec> Make() {
    AddDense();
    AddExpertsAndTies();
    AddSlices();
    AddAbsent();
    return std::move(specs_);
  }

 private:
  // Sharded over all axes of different data, with one role over the others.
  ParameterSpec& Add(std::string name, Rule rule, std::vector<int64_t> shape,
                     AxisRole model_role, GradientMode mode) {
    ParameterSpec& spec = specs_.emplace_back();
    spec.name = std::move(name);
    spec.rule = rule;
    spec.shape = std::move(shape);
    spec.dtype = combination_.precision;
    spec.gradient_mode = mode;
    spec.gradient_dtype = mode == GradientMode::kAccumulate
                              ? DataType::kF32
                              : combination_.precision;
    for (const MeshAxis& axis : mesh_.axes()) {
      if (IsModelAxis(axis.name)) spec.roles[axis.name] = model_role;
    }
    return spec;
  }

  void AddDense() {
    Add("dense", Rule::kMuon, {4, 6}, AxisRole::kDistinct,
        GradientMode::kCopyLast);
    Add("dense.bias", Rule::kAdamW, {140}, AxisRole::kDuplicate,
        GradientMode::kView);
    ParameterSpec& attention =
        Add("attention", Rule::kMuon, {9, 4}, AxisRole::kDuplicate,
            GradientMode::kAccumulate);
    attention.blocks = {.dimension = 0, .sizes = {3, 3, 2}, .padding = 1};
    attention.roles[replicate_axis_] = AxisRole::kReplicate;
  }

  void AddExpertsAndTies() {
    const int32_t last = model_axis_.degree - 1;
    ParameterSpec& expert = Add("expert", Rule::kMuon, {2, 3, 4},
                                AxisRole::kDuplicate, GradientMode::kCopyLast);
    expert.roles[expert_axis_] = AxisRole::kDistinct;
    expert.roles[model_axis_.name] = AxisRole::kDistinct;
    expert.coordinates[model_axis_.name] = {0};
    ParameterSpec& tied = Add("tied", Rule::kAdamW, {2, 20},
                              AxisRole::kDuplicate, GradientMode::kCopyLast);
    tied.roles[model_axis_.name] = AxisRole::kPartial;
    if (last > 0) tied.coordinates[model_axis_.name] = {0, last};
    tied.check_ins = CheckIns::kSyncOnly;
    ParameterSpec& norm = Add("norm", Rule::kAdamW, {12}, AxisRole::kPartial,
                              GradientMode::kView);
    norm.roles[replicate_axis_] = AxisRole::kReplicate;
    norm.check_ins = CheckIns::kAtMost;
    norm.weight_decay = false;
  }

  void AddSlices() {
    Add("column", Rule::kAdamW, {30}, AxisRole::kSlice, GradientMode::kCopyLast)
        .learning_rate_scale = 0.5;
    ParameterSpec& row =
        Add("row", Rule::kMuon, {4, 5}, AxisRole::kSlice, GradientMode::kView);
    row.blockwise = true;
    row.fan_out_dimension = 1;
  }

  void AddAbsent() {
    const AbsentGradient absent =
        combination_.absent.value_or(AbsentGradient::kError);
    Add("absent.matrix", Rule::kMuon, {3, 5}, AxisRole::kDuplicate,
        GradientMode::kAccumulate)
        .absent_gradient = absent;
    ParameterSpec& vector = Add("absent.vector", Rule::kAdamW, {17},
                                AxisRole::kDuplicate, GradientMode::kView);
    vector.absent_gradient = absent;
    vector.roles[replicate_axis_] = AxisRole::kReplicate;
    vector.roles[model_axis_.name] = AxisRole::kDistinct;
    vector.coordinates[model_axis_.name] = {model_axis_.degree - 1};
  }

  const Mesh& mesh_;
  const Combination& combination_;
  MeshAxis model_axis_ = {.name = "", .degree = 1};
  std::string replicate_axis_;
  std::string expert_axis_;
  std::vector<ParameterSpec> specs_;
};

OptimizerOptions OptionsOf(const Combination& combination) {
  OptimizerOptions options;
  options.overlap = combination.overlap;
  options.gather = combination.gather;
  options.release_gradients = combination.release_gradients;
  options.plan.hierarchy = combination.hierarchy;
  options.plan.bucket_bytes_max = 400;
  options.muon.learning_rate = 0.1;
  options.adamw.learning_rate = 0.1;
  return options;
}

}  // namespace

std::vector<CombinationMesh> SmallMeshes() {
  constexpr char kUnequal[] = "does not factor into hosts and lanes";
  constexpr char kNone[] =
      "no group has two ranks or more on each of two hosts or more";
  return {{"data=4,tp=2", "AAAABBBB", ""},
          {"pp=2,moe_sharding=2,ep=2", "AABBAABB", ""},
          {"tp=2,dp=2,data=2", "ABBAABBA", ""},
          {"data=6,pp=1", "AABBCC", ""},
          {"tp=2,data=3", "AABAAB", kUnequal},
          {"ep=2,data=2,tp=2", "ABCDEFGH", kNone},
          {"pp=4,data=2", "AAAAAAAA", kNone}};
}

std::vector<CombinationMesh> LargeMeshes() {
  std::string hosts;
  for (char host = 'A'; host <= 'H'; ++host) hosts.append(8, host);
  std::vector<CombinationMesh> meshes;
  const std::vector<std::string> axes = {"moe_sharding=2", "pp=2", "ep=16"};
  for (size_t a = 0; a < 3; ++a) {
    for (size_t b = 0; b < 3; ++b) {
      if (a == b) continue;
      meshes.push_back(
          {absl::StrCat(axes[a], ",", axes[b], ",", axes[3 - a - b]), hosts,
           ""});
    }
  }
  return meshes;
}

ShardedCase CaseOf(const CombinationMesh& mesh, const Combination& combination,
                   GradientValues gradients) {
  const Mesh parsed = *Mesh::Parse(mesh.mesh);
  ShardedCase sharded;
  sharded.mesh = mesh.mesh;
  for (const char host : mesh.hosts) sharded.hosts.emplace_back(1, host);
  sharded.specs = SpecMaker(parsed, combination).Make();
  sharded.options = OptionsOf(combination);
  sharded.steps = combination.scaler ? 3 : 2;
  sharded.micro_batches = combination.micro_batches;
  sharded.clip_norm = 1;
  sharded.seed = 99;
  sharded.gradients = gradients;
  sharded.goes_on_after_errors = true;
  if (combination.scaler) {
    sharded.scaler = {.init_scale = 64, .growth_interval = 1};
    sharded.overflows = {{.rank = Rank(parsed.size() - 1),
                          .parameter = kOverflowing,
                          .step = 2}};
  }
  if (combination.absent.has_value()) {
    const std::vector<ParameterSpec> specs = sharded.specs;
    // On no rank, then on some.
    sharded.has_gradient = [specs](Rank rank, int32_t p, int64_t step) {
      const std::string& name = specs[static_cast<size_t>(p)].name;
      if (name != "absent.matrix" && name != "absent.vector") return true;
      return step > 1 && ToInt(rank) % 3 != 1;
    };
  }
  return sharded;
}

}  // namespace muonshard::testing
