// Every hyper-parameter acts as its formula says: with it changed the optimizer
// stays within its rounding of the fp64 reference, which gets the change too,
// and the change is larger than any rounding.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "optimizer/compute/convert.h"
#include "optimizer/plan.h"
#include "optimizer/unsharded/unsharded_optimizer.h"
#include "testing/short_experiment.h"
#include "testing/status_matchers.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

using testing::Bound;
using testing::Distance;
using testing::Experiment;
using testing::IsOk;
using testing::LargestDistance;
using testing::Optimize;
using testing::OptimizeInFp64;
using testing::Values;

using Change = std::function<void(Experiment&)>;

void DoNothing(Experiment&) {}

struct FieldCase {
  std::string field;
  Change change;
  Change prepare = DoNothing;
  // Turns the changed experiment into what the reference is given, where the
  // optimizer's own reading of it would be asked otherwise.
  Change restate = DoNothing;
};

// The coefficients of the sources, spelled out here once more.
const std::vector<NewtonSchulzCoefficients>& Quintic() {
  static const auto* kSet =
      new std::vector<NewtonSchulzCoefficients>{{4.0848, -6.8946, 2.9270},
                                                {3.9505, -6.3029, 2.6377},
                                                {3.7418, -5.5913, 2.3037},
                                                {2.8769, -3.1427, 1.2046},
                                                {2.8366, -3.0525, 1.2012}};
  return *kSet;
}

const NewtonSchulzCoefficients kSimple = {3.4445, -4.7750, 2.0315};

Change Restate(std::vector<NewtonSchulzCoefficients> steps) {
  return [steps = std::move(steps)](Experiment& e) {
    e.options.muon.coefficient_set = NewtonSchulzSet::kCustom;
    e.options.muon.custom_coefficients = steps;
    e.options.muon.newton_schulz_steps = 0;
  };
}

void RowNormalization(Experiment& e) {
  e.options.muon.row_normalization = true;
}
void StrongDecay(Experiment& e) { e.options.muon.weight_decay = 5; }

std::vector<FieldCase> MuonCases() {
  std::vector<FieldCase> cases = {
      {"muon.learning_rate",
       [](Experiment& e) { e.options.muon.learning_rate = 0.05; }},
      {"muon.weight_decay", StrongDecay},
      {"muon.weight_decay_kind",
       [](Experiment& e) {
         e.options.muon.weight_decay_kind = WeightDecay::kCautious;
       },
       StrongDecay},
      {"muon.momentum", [](Experiment& e) { e.options.muon.momentum = 0.5; }},
      {"muon.nesterov", [](Experiment& e) { e.options.muon.nesterov = false; }},
      {"muon.coefficient_set",
       [](Experiment& e) {
         e.options.muon.coefficient_set = NewtonSchulzSet::kQuintic;
       },
       DoNothing, Restate(Quintic())},
      {"muon.custom_coefficients",
       [](Experiment& e) {
         e.options.muon.custom_coefficients = {{1.5, -0.5, 0}, {1, 0.25, -0.5}};
       },
       [](Experiment& e) {
         e.options.muon.coefficient_set = NewtonSchulzSet::kCustom;
         e.options.muon.custom_coefficients = {{1, 0, 0}};
       }},
      // The last is held.
      {"muon.newton_schulz_steps",
       [](Experiment& e) { e.options.muon.newton_schulz_steps = 2; }, DoNothing,
       Restate({kSimple, kSimple})},
      {"muon.newton_schulz_steps",
       [](Experiment& e) { e.options.muon.newton_schulz_steps = 6; }, DoNothing,
       Restate(std::vector<NewtonSchulzCoefficients>(6, kSimple))},
      {"muon.epsilon", [](Experiment& e) { e.options.muon.epsilon = 4; }},
      {"muon.epsilon", [](Experiment& e) { e.options.muon.epsilon = 0.3; },
       RowNormalization},
      {"muon.rms_factor",
       [](Experiment& e) { e.options.muon.rms_factor = 0.5; },
       [](Experiment& e) { e.options.muon.scale = MuonScale::kMatchAdamWRms; }},
      {"muon.row_normalization", RowNormalization},
      {"muon.row_beta2", [](Experiment& e) { e.options.muon.row_beta2 = 0.2; },
       RowNormalization},
  };
  for (const MuonScale scale :
       {MuonScale::kMatchAdamWRms, MuonScale::kFanRatio, MuonScale::kNone}) {
    cases.push_back({"muon.scale",
                     [scale](Experiment& e) { e.options.muon.scale = scale; }});
  }
  return cases;
}

std::vector<FieldCase> AdamWCases() {
  return {
      {"adamw.learning_rate",
       [](Experiment& e) { e.options.adamw.learning_rate = 0.02; }},
      {"adamw.weight_decay",
       [](Experiment& e) { e.options.adamw.weight_decay = 20; }},
      {"adamw.beta1", [](Experiment& e) { e.options.adamw.beta1 = 0.5; }},
      {"adamw.beta2", [](Experiment& e) { e.options.adamw.beta2 = 0.5; }},
      {"adamw.epsilon", [](Experiment& e) { e.options.adamw.epsilon = 0.5; }},
  };
}

std::vector<FieldCase> SpecCases() {
  std::vector<FieldCase> cases;
  for (const size_t p : {size_t{0}, size_t{1}, size_t{2}}) {
    cases.push_back({"learning_rate_scale", [p](Experiment& e) {
                       e.specs[p].learning_rate_scale = 2;
                     }});
    cases.push_back({"weight_decay",
                     [p](Experiment& e) { e.specs[p].weight_decay = false; },
                     [](Experiment& e) {
                       e.options.muon.weight_decay = 5;
                       e.options.adamw.weight_decay = 5;
                     }});
  }
  for (const size_t p : {size_t{0}, size_t{1}}) {
    const Change turn = [p](Experiment& e) {
      e.specs[p].fan_out_dimension = 1;
    };
    cases.push_back({"fan_out_dimension", turn});
    cases.push_back({"fan_out_dimension", turn, RowNormalization});
  }
  cases.push_back(
      {"blocks", [](Experiment& e) {
         e.specs[0].blocks = {.dimension = 1, .sizes = {3, 4}, .padding = 3};
       }});
  cases.push_back(
      {"blocks", [](Experiment& e) {
         e.specs[1].blocks = {.dimension = 0, .sizes = {2, 8}, .padding = 2};
       }});
  return cases;
}

// Fields that leave the polynomial alone and change its roundings.
std::vector<FieldCase> RoundingCases() {
  const auto gram = [](Experiment& e) {
    e.options.muon.iteration = NewtonSchulzIteration::kGram;
  };
  std::vector<FieldCase> cases = {
      {"muon.iteration", gram},
      {"muon.gram_restart_interval",
       [](Experiment& e) { e.options.muon.gram_restart_interval = 1; }, gram},
      {"muon.gram_restart_interval",
       [](Experiment& e) { e.options.muon.gram_restart_interval = 3; }, gram}};
  for (const DataType type :
       {DataType::kF64, DataType::kBF16, DataType::kF16}) {
    cases.push_back({"muon.newton_schulz_dtype", [type](Experiment& e) {
                       e.options.muon.newton_schulz_dtype = type;
                     }});
  }
  return cases;
}

// Cases whose effect is worked out below, in tests of their own.
const char* const kWorkedOut[] = {"muon.pre_scaling",
                                  "muon.polar_express_safety"};

void ExpectWithinBounds(const Experiment& experiment, const Values& got,
                        const Values& want) {
  for (size_t p = 0; p < want.size(); ++p) {
    EXPECT_LT(Distance(got[p], want[p]), Bound(experiment, p))
        << experiment.specs[p].name;
  }
}

// The sum of the bounds of both experiments: what no change may hide in.
double LargestBound(const Experiment& a, const Experiment& b) {
  double largest = 0;
  for (size_t p = 0; p < a.specs.size(); ++p) {
    largest = std::max(largest, Bound(a, p) + Bound(b, p));
  }
  return largest;
}

void CheckCase(const FieldCase& test) {
  SCOPED_TRACE(test.field);
  Experiment before = testing::ShortExperiment();
  test.prepare(before);
  Experiment after = before;
  test.change(after);
  Experiment restated = after;
  test.restate(restated);
  const Values want = OptimizeInFp64(restated);
  ExpectWithinBounds(after, Optimize(after), want);
  const Values want_before = OptimizeInFp64(before);
  ExpectWithinBounds(before, Optimize(before), want_before);
  EXPECT_GT(LargestDistance(want, want_before),
            2 * LargestBound(before, after));
}

TEST(HyperParameterTest, EveryFieldOfMuonActsAsItsFormulaSays) {
  for (const FieldCase& test : MuonCases()) CheckCase(test);
}

TEST(HyperParameterTest, EveryFieldOfAdamWActsAsItsFormulaSays) {
  for (const FieldCase& test : AdamWCases()) CheckCase(test);
}

TEST(HyperParameterTest, EveryFieldOfASpecActsOnItsParameterAlone) {
  for (const FieldCase& test : SpecCases()) {
    CheckCase(test);
    Experiment before = testing::ShortExperiment();
    test.prepare(before);
    Experiment after = before;
    test.change(after);
    const Values old_values = Optimize(before);
    const Values new_values = Optimize(after);
    int changed = 0;
    for (size_t p = 0; p < old_values.size(); ++p) {
      if (old_values[p] != new_values[p]) ++changed;
    }
    EXPECT_EQ(changed, 1) << test.field;
  }
}

TEST(HyperParameterTest, FieldsThatRoundOtherwiseChangeBitsWithinTheirBound) {
  for (const FieldCase& test : RoundingCases()) {
    SCOPED_TRACE(test.field);
    Experiment before = testing::ShortExperiment();
    test.prepare(before);
    Experiment after = before;
    test.change(after);
    const Values want = OptimizeInFp64(before);
    const Values got = Optimize(after);
    ExpectWithinBounds(after, got, want);
    EXPECT_NE(got, Optimize(before));
  }
}

// One step from zero on a diagonal matrix, which the iteration takes to another
// diagonal matrix, value by value.
std::vector<double> DiagonalStep(const MuonOptions& muon,
                                 const std::vector<float>& diagonal) {
  const auto side = static_cast<int64_t>(diagonal.size());
  ParameterSpec spec;
  spec.name = "diagonal";
  spec.shape = {side, side};
  spec.rule = Rule::kMuon;
  OptimizerOptions options;
  options.muon = muon;
  options.muon.learning_rate = 1;
  options.muon.weight_decay = 0;
  options.muon.momentum = 0;
  std::vector<float> gradient(diagonal.size() * diagonal.size(), 0.0f);
  for (size_t i = 0; i < diagonal.size(); ++i) {
    gradient[i * (diagonal.size() + 1)] = diagonal[i];
  }
  auto optimizer = UnshardedOptimizer::Create(
      {spec}, options, {1},
      {std::vector<std::byte>(gradient.size() * sizeof(float))});
  EXPECT_THAT(optimizer, IsOk());
  UnshardedStepInput input;
  input.gradients.push_back({.dtype = DataType::kF32,
                             .groups = {{{gradient.data()}}},
                             .group_lanes = {}});
  EXPECT_THAT(optimizer->Step(input), IsOk());
  std::vector<float> values(gradient.size());
  ToFloat(DataType::kF32, optimizer->parameter(0).data(), values);
  std::vector<double> result;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % (diagonal.size() + 1) == 0) {
      result.push_back(-double{values[i]});
    } else {
      EXPECT_EQ(values[i], 0);
    }
  }
  return result;
}

double Polynomial(const NewtonSchulzCoefficients& step, double s) {
  return step.a * s + step.b * std::pow(s, 3) + step.c * std::pow(s, 5);
}

// Of f32, after one step of values up to 1.
constexpr double kOneStepTolerance = 16 * 6e-8 * 8.3;

TEST(HyperParameterTest, TheSafetyFactorShrinksWhatPolarExpressTakes) {
  const std::vector<float> diagonal = {3, 4, 12};  // Of norm 13.
  for (const double safety : {1.0, 1.01, 1.25}) {
    MuonOptions muon;
    muon.coefficient_set = NewtonSchulzSet::kPolarExpress;
    muon.polar_express_safety = safety;
    muon.newton_schulz_steps = 1;
    const std::vector<double> got = DiagonalStep(muon, diagonal);
    for (size_t i = 0; i < diagonal.size(); ++i) {
      // The first step of arXiv 2505.16932.
      const double want = Polynomial(
          {8.28721201814563, -23.595886519098837, 17.300387312530933},
          double{diagonal[i]} / 13 / safety);
      EXPECT_NEAR(got[i], want, kOneStepTolerance) << safety << " " << i;
    }
  }
}

// By rows, each is divided by a bound of its own, which for a diagonal matrix
// is the value itself: what is left is the same for all.
TEST(HyperParameterTest, PreScalingByRowsMakesADiagonalEven) {
  const std::vector<float> diagonal = {3, 4, 12};
  MuonOptions muon;
  muon.coefficient_set = NewtonSchulzSet::kCustom;
  const NewtonSchulzCoefficients step = {1.5, -0.75, 0.125};
  muon.custom_coefficients = {step};
  const std::vector<double> by_norm = DiagonalStep(muon, diagonal);
  muon.pre_scaling = PreScaling::kAol;
  const std::vector<double> by_rows = DiagonalStep(muon, diagonal);
  for (size_t i = 0; i < diagonal.size(); ++i) {
    EXPECT_NEAR(by_norm[i], Polynomial(step, double{diagonal[i]} / 13),
                kOneStepTolerance);
    EXPECT_NEAR(by_rows[i], Polynomial(step, kAolSpectralNormMax),
                kOneStepTolerance);
  }
}

// A field more does not compile here until a case is made for it above.
TEST(HyperParameterTest, EveryFieldHasACase) {
  const MuonOptions muon;
  const auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15,
               m16, m17, m18] = muon;
  const AdamWOptions adamw;
  const auto& [a1, a2, a3, a4, a5] = adamw;
  static_cast<void>(std::tie(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12,
                             m13, m14, m15, m16, m17, m18, a1, a2, a3, a4, a5));
  std::set<std::string> covered(std::begin(kWorkedOut), std::end(kWorkedOut));
  for (const auto& cases : {MuonCases(), AdamWCases(), RoundingCases()}) {
    for (const FieldCase& test : cases) covered.insert(test.field);
  }
  EXPECT_EQ(covered.size(), 18 + 5);

  const Experiment experiment = testing::ShortExperiment();
  const auto plan =
      Plan::Create(experiment.specs, *Mesh::Parse("data=1"),
                   HostMap::FromHostIds({"host"}), experiment.options);
  ASSERT_THAT(plan, IsOk());
  std::set<std::string> compared;
  for (const std::string& line : plan->lines) {
    for (const char* options : {"muon", "adamw"}) {
      if (!absl::StartsWith(line, absl::StrCat("option ", options, "."))) {
        continue;
      }
      const std::vector<std::string> words =
          absl::StrSplit(line, absl::ByAnyChar(" ="));
      compared.insert(words[1]);
    }
  }
  EXPECT_EQ(covered, compared) << "what ranks compare is what tests change";
}

}  // namespace
}  // namespace muonshard
