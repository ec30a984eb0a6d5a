// What all ranks must agree on: no field is left out.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Inputs {
  std::vector<ParameterSpec> specs = {
      {.name = "blocks.0.w", .shape = {6, 8}, .rule = Rule::kMuon},
      {.name = "blocks.0.v", .shape = {300}, .rule = Rule::kAdamW},
      {.name = "blocks.1.w", .shape = {6, 8}, .rule = Rule::kMuon}};
  std::string mesh = "dp=2,ep=2";
  std::vector<std::string> host_ids = {"a", "a", "b", "b"};
  OptimizerOptions options;
};

using Change = std::function<void(Inputs&)>;

Plan MakePlan(const Inputs& inputs) {
  absl::StatusOr<Plan> plan =
      Plan::Create(inputs.specs, *Mesh::Parse(inputs.mesh),
                   HostMap::FromHostIds(inputs.host_ids), inputs.options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

// The first line that differs once `change` is made, as one side has it.
std::string FirstDifference(const Change& change) {
  Inputs changed;
  change(changed);
  const Plan before = MakePlan({});
  const Plan after = MakePlan(changed);
  EXPECT_NE(before.Fingerprint(), after.Fingerprint());
  for (size_t i = 0; i < before.lines.size() && i < after.lines.size(); ++i) {
    if (before.lines[i] != after.lines[i]) return after.lines[i];
  }
  return "no line differs";
}

// How to change each option, by the name that its line has.
using OptionChanges =
    std::map<std::string, std::function<void(OptimizerOptions&)>>;

OptionChanges ChangesOfMuon() {
  return {
      {"muon.learning_rate",
       [](OptimizerOptions& o) { o.muon.learning_rate *= 1 + 1e-15; }},
      {"muon.weight_decay",
       [](OptimizerOptions& o) { o.muon.weight_decay = 0; }},
      {"muon.momentum", [](OptimizerOptions& o) { o.muon.momentum = 0; }},
      {"muon.nesterov", [](OptimizerOptions& o) { o.muon.nesterov = false; }},
      {"muon.weight_decay_kind",
       [](OptimizerOptions& o) {
         o.muon.weight_decay_kind = WeightDecay::kCautious;
       }},
      {"muon.coefficient_set",
       [](OptimizerOptions& o) {
         o.muon.coefficient_set = NewtonSchulzSet::kQuintic;
       }},
      {"muon.polar_express_safety",
       [](OptimizerOptions& o) { o.muon.polar_express_safety = 1.02; }},
      {"muon.pre_scaling",
       [](OptimizerOptions& o) {
         o.muon.pre_scaling = PreScaling::kFrobenius;
       }},
      {"muon.iteration",
       [](OptimizerOptions& o) {
         o.muon.iteration = NewtonSchulzIteration::kGram;
       }},
      {"muon.gram_restart_interval",
       [](OptimizerOptions& o) { o.muon.gram_restart_interval = 3; }},
      {"muon.newton_schulz_dtype",
       [](OptimizerOptions& o) {
         o.muon.newton_schulz_dtype = DataType::kBF16;
       }},
      {"muon.rms_factor", [](OptimizerOptions& o) { o.muon.rms_factor = 0.4; }},
      {"muon.row_normalization",
       [](OptimizerOptions& o) { o.muon.row_normalization = true; }},
      {"muon.row_beta2", [](OptimizerOptions& o) { o.muon.row_beta2 = 0; }},
      {"muon.newton_schulz_steps",
       [](OptimizerOptions& o) { o.muon.newton_schulz_steps = 6; }},
      {"muon.epsilon", [](OptimizerOptions& o) { o.muon.epsilon = 1; }}};
}

OptionChanges ChangesOfOthers() {
  return {
      {"adamw.learning_rate",
       [](OptimizerOptions& o) { o.adamw.learning_rate = 1; }},
      {"adamw.weight_decay",
       [](OptimizerOptions& o) { o.adamw.weight_decay = 0; }},
      {"adamw.beta1", [](OptimizerOptions& o) { o.adamw.beta1 = 0; }},
      {"adamw.beta2", [](OptimizerOptions& o) { o.adamw.beta2 = 0; }},
      {"adamw.epsilon", [](OptimizerOptions& o) { o.adamw.epsilon = 1; }},
      {"plan.bucket_bytes_max",
       [](OptimizerOptions& o) { ++o.plan.bucket_bytes_max; }},
      {"plan.buckets_per_part",
       [](OptimizerOptions& o) { o.plan.buckets_per_part = 7; }},
      {"plan.rank_memory_bytes_max",
       [](OptimizerOptions& o) { o.plan.rank_memory_bytes_max = 1 << 30; }},
      {"plan.hierarchy",
       [](OptimizerOptions& o) { o.plan.hierarchy = Hierarchy::kOff; }},
      {"overlap", [](OptimizerOptions& o) { o.overlap = !o.overlap; }},
      {"gather", [](OptimizerOptions& o) { o.gather = GatherMode::kEager; }},
      {"master_weights", [](OptimizerOptions& o) { o.master_weights = false; }},
      {"release_gradients",
       [](OptimizerOptions& o) { o.release_gradients = true; }},
      {"equality_check_interval",
       [](OptimizerOptions& o) { ++o.equality_check_interval; }},
      {"synchronous_errors",
       [](OptimizerOptions& o) {
         o.synchronous_errors = !o.synchronous_errors;
       }},
      {"timeout",
       [](OptimizerOptions& o) { o.timeout += absl::Nanoseconds(1); }}};
}

TEST(PlanLinesTest, EveryOptionIsInALineOfItsOwn) {
  OptionChanges changes = ChangesOfMuon();
  changes.merge(ChangesOfOthers());
  for (const auto& [name, change] : changes) {
    const std::string line =
        FirstDifference([&](Inputs& inputs) { change(inputs.options); });
    EXPECT_THAT(line, StartsWith("option " + name + "="));
  }
}

TEST(PlanLinesTest, CustomCoefficientsAreAgreedOnToTheLastBit) {
  const auto line = [](double b) {
    Inputs inputs;
    inputs.options.muon.coefficient_set = NewtonSchulzSet::kCustom;
    inputs.options.muon.custom_coefficients = {{2, b, 0.5}, {1.5, -0.5, 0}};
    const std::vector<std::string> lines = MakePlan(inputs).lines;
    return *std::find_if(lines.begin(), lines.end(), [](const auto& text) {
      return text.find("muon.custom_coefficients") != std::string::npos;
    });
  };
  EXPECT_EQ(line(-1.5),
            "option muon.custom_coefficients=(2,-1.5,0.5),(1.5,-0.5,0)");
  EXPECT_NE(line(-1.5), line(-1.5 - 1e-15));
}

TEST(PlanLinesTest, EveryScaleIsToldApart) {
  std::set<std::string> lines;
  for (const MuonScale scale :
       {MuonScale::kMatchAdamWRms, MuonScale::kFanRatio, MuonScale::kNone}) {
    lines.insert(FirstDifference(
        [scale](Inputs& inputs) { inputs.options.muon.scale = scale; }));
  }
  EXPECT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines, Contains("option muon.scale=fan_ratio"));
}

TEST(PlanLinesTest, EveryFieldOfAParameterIsInTheLineThatNamesIt) {
  const std::map<std::string, std::function<void(ParameterSpec&)>> changes = {
      {"shape=[8,6]",
       [](ParameterSpec& s) {
         s.shape = {8, 6};
       }},
      {" dtype=bf16", [](ParameterSpec& s) { s.dtype = DataType::kBF16; }},
      {"gradient_dtype=f16",
       [](ParameterSpec& s) { s.gradient_dtype = DataType::kF16; }},
      {"rule=adamw", [](ParameterSpec& s) { s.rule = Rule::kAdamW; }},
      {"fan_out_dimension=1",
       [](ParameterSpec& s) { s.fan_out_dimension = 1; }},
      {"blocks.dimension=1", [](ParameterSpec& s) { s.blocks.dimension = 1; }},
      {"blocks.sizes=[2,4]",
       [](ParameterSpec& s) {
         s.blocks.sizes = {2, 4};
       }},
      {"ep:distinct",
       [](ParameterSpec& s) {
         s.roles = {{"ep", AxisRole::kDistinct}};
       }},
      {"dp:replicate",
       [](ParameterSpec& s) {
         s.roles = {{"dp", AxisRole::kReplicate}};
       }},
      {"coordinates=[dp:0,ep:1]",
       [](ParameterSpec& s) {
         s.roles = {{"dp", AxisRole::kDistinct}, {"ep", AxisRole::kDistinct}};
         s.coordinates = {{"ep", {1}}, {"dp", {0}}};
       }},
      {"blocks.padding=2", [](ParameterSpec& s) { s.blocks.padding = 2; }},
      {"check_ins=sync_only",
       [](ParameterSpec& s) { s.check_ins = CheckIns::kSyncOnly; }},
      {"schedule=\"warm\\nup\"",
       [](ParameterSpec& s) { s.schedule = "warm\nup"; }},
      {"gradient_mode=view",
       [](ParameterSpec& s) { s.gradient_mode = GradientMode::kView; }},
      {"gradient_mode=accumulate",
       [](ParameterSpec& s) { s.gradient_mode = GradientMode::kAccumulate; }},
      {"absent_gradient=zeros",
       [](ParameterSpec& s) { s.absent_gradient = AbsentGradient::kZeros; }},
      {"absent_gradient=skip",
       [](ParameterSpec& s) { s.absent_gradient = AbsentGradient::kSkip; }},
      {"check_ins=at_most",
       [](ParameterSpec& s) { s.check_ins = CheckIns::kAtMost; }},
      {"learning_rate_scale=0.5",
       [](ParameterSpec& s) { s.learning_rate_scale = 0.5; }},
      {"weight_decay=0", [](ParameterSpec& s) { s.weight_decay = false; }}};
  for (const auto& [text, change] : changes) {
    const std::string line =
        FirstDifference([&](Inputs& inputs) { change(inputs.specs[2]); });
    EXPECT_THAT(line, StartsWith("parameter 2 \"blocks.1.w\" "));
    EXPECT_THAT(line, HasSubstr(text));
  }
}

// Over axes of the same data, all parameters need to have such roles.
TEST(PlanLinesTest, EveryRoleIsInTheLineOfItsParameter) {
  const auto line = [](const ParameterSpec& spec) {
    Inputs inputs;
    inputs.specs = {spec};
    const std::vector<std::string> lines = MakePlan(inputs).lines;
    return *std::find_if(lines.begin(), lines.end(), [](const auto& text) {
      return text.rfind("parameter 0 ", 0) == 0;
    });
  };
  ParameterSpec spec = {.name = "w", .shape = {6, 8}, .rule = Rule::kMuon};
  spec.roles = {{"dp", AxisRole::kDuplicate}, {"ep", AxisRole::kPartial}};
  spec.coordinates = {{"ep", {1}}};
  EXPECT_THAT(line(spec), HasSubstr(" roles=[dp:duplicate,ep:partial] "
                                    "coordinates=[ep:1] blockwise=0 "));
  spec.coordinates = {{"ep", {0, 1}}};
  EXPECT_THAT(line(spec), HasSubstr(" coordinates=[] "));
  spec = {.name = "w", .shape = {6, 8}, .rule = Rule::kMuon};
  spec.roles = {{"ep", AxisRole::kSlice}};
  spec.blockwise = true;
  EXPECT_THAT(line(spec), HasSubstr(" roles=[dp:shard,ep:slice] "
                                    "coordinates=[] blockwise=1 "));
}

TEST(PlanLinesTest, LevelsAreAgreedOn) {
  const Plan plan = MakePlan({});
  EXPECT_THAT(plan.lines,
              Contains("levels of class 0 shards groups=1 hosts=2 lanes=2"));
  Inputs inputs;
  for (ParameterSpec& spec : inputs.specs) {
    spec.roles = {{"dp", AxisRole::kReplicate}};
  }
  EXPECT_THAT(MakePlan(inputs).lines,
              Contains("levels of class 0 replicas groups=2 hosts=2 lanes=1"));
}

TEST(PlanLinesTest, ClassesThatShareNoBucketAreToldApart) {
  Inputs inputs;
  inputs.specs[1].check_ins = CheckIns::kSyncOnly;
  EXPECT_THAT(MakePlan(inputs).lines,
              Contains(HasSubstr("gradient_dtype=f32 parameter_dtype=f32 "
                                 "sync_only=1 group_size=4 replica_size=1 "
                                 "in_rank_order=0")));
}

TEST(PlanLinesTest, NamesAndOrderAreAgreedOn) {
  EXPECT_THAT(
      FirstDifference([](Inputs& inputs) { inputs.specs[1].name = "x\ny"; }),
      StartsWith("parameter 1 \"x\\ny\" "));
  EXPECT_THAT(FirstDifference([](Inputs& inputs) {
                std::swap(inputs.specs[0], inputs.specs[2]);
              }),
              StartsWith("parameter 0 \"blocks.1.w\" "));
  EXPECT_THAT(FirstDifference([](Inputs& inputs) { inputs.specs.pop_back(); }),
              StartsWith("class 0 "));
}

TEST(PlanLinesTest, MeshAndHostsAreAgreedOn) {
  EXPECT_EQ(FirstDifference([](Inputs& inputs) { inputs.mesh = "ep=2,dp=2"; }),
            "mesh ep=2,dp=2");
  EXPECT_EQ(FirstDifference([](Inputs& inputs) {
              inputs.host_ids = {"a", "b", "b", "b"};
            }),
            "hosts 0*1,1*3");
}

TEST(PlanLinesTest, AListedShardRoleIsAnImpliedOne) {
  Inputs listed;
  listed.specs[0].roles = {{"dp", AxisRole::kShard}};
  EXPECT_EQ(MakePlan(listed).Fingerprint(), MakePlan({}).Fingerprint());
}

TEST(PlanLinesTest, TheLayoutFollowsTheInputs) {
  const Plan plan = MakePlan({});
  EXPECT_THAT(plan.lines, Contains(StartsWith("class 0 shard=[dp,ep] ")));
  EXPECT_THAT(plan.lines.back(), StartsWith("bucket 0 class=0 part=0 "));
}

TEST(PlanLinesTest, TheFingerprintReadsEachByteOfEachLine) {
  Plan plan;
  plan.lines = {"ab", "c"};
  const uint64_t fingerprint = plan.Fingerprint();
  std::set<uint64_t> others;
  for (const std::vector<std::string>& lines :
       {std::vector<std::string>{"a", "bc"},
        {"c", "ab"},
        {"ab", "d"},
        {"ab"},
        {"ab", "c", ""},
        {"bb", "c"},
        {}}) {
    plan.lines = lines;
    others.insert(plan.Fingerprint());
  }
  EXPECT_EQ(others.size(), 7u);
  EXPECT_EQ(others.count(fingerprint), 0u);
}

}  // namespace
}  // namespace muonshard
