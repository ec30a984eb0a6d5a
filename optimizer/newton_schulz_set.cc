#include "optimizer/newton_schulz_set.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muonshard {
namespace {

constexpr NewtonSchulzCoefficients kSimpleStep = {3.4445, -4.7750, 2.0315};
constexpr NewtonSchulzCoefficients kPolishingStep = {2, -1.5, 0.5};

constexpr NewtonSchulzCoefficients kSimple[] = {
    kSimpleStep, kSimpleStep, kSimpleStep, kSimpleStep, kSimpleStep};

constexpr NewtonSchulzCoefficients kQuintic[] = {{4.0848, -6.8946, 2.9270},
                                                 {3.9505, -6.3029, 2.6377},
                                                 {3.7418, -5.5913, 2.3037},
                                                 {2.8769, -3.1427, 1.2046},
                                                 {2.8366, -3.0525, 1.2012}};

constexpr NewtonSchulzCoefficients kPolarExpress[] = {
    {8.28721201814563, -23.595886519098837, 17.300387312530933},
    {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
    {3.9486908534822946, -2.908902115956949, 0.5518191394370137},
    {3.3184196573706015, -2.488488024314874, 0.51004894012372},
    {2.300652019954817, -1.6689039845747493, 0.4188073119525673},
    {1.891301407787398, -1.2679958271945868, 0.37680408948524835},
    {1.8750014808534479, -1.2500016453999487, 0.3750001645474248},
    {1.875, -1.25, 0.375}};

constexpr NewtonSchulzCoefficients kAol[] = {{4.0098, -7.0585, 2.4635},
                                             {3.4585, -5.5479, 2.5959},
                                             {2.7573, -3.2939, 1.4254},
                                             {2.7215, -3.0494, 1.3169}};

constexpr NewtonSchulzCoefficients kDeepSeekV4[] = {
    kSimpleStep, kSimpleStep, kSimpleStep, kSimpleStep,    kSimpleStep,
    kSimpleStep, kSimpleStep, kSimpleStep, kPolishingStep, kPolishingStep};

constexpr CoefficientSet kSets[] = {
    {NewtonSchulzSet::kSimple, "simple",
     "Keller Jordan's Muon; the default of torch.optim.Muon, five steps",
     kSimple},
    {NewtonSchulzSet::kQuintic, "quintic",
     "\"quintic\" of Megatron-LM and PaddlePaddle, after leloykun.github.io, "
     "muon-opt-coeffs",
     kQuintic},
    {NewtonSchulzSet::kPolarExpress, "polar_express",
     "arXiv 2505.16932, without safety factor", kPolarExpress},
    {NewtonSchulzSet::kAol, "aol",
     "\"aol\" of Megatron-LM and PaddlePaddle, after "
     "github.com/thib-s/flash-newton-schulz; arXiv 2512.04632",
     kAol},
    {NewtonSchulzSet::kDeepSeekV4, "deepseek_v4",
     "the DeepSeek-V4 report: eight steps of simple, two that polish",
     kDeepSeekV4},
    {NewtonSchulzSet::kCustom, "custom", "the user", {}}};

}  // namespace

std::span<const CoefficientSet> CoefficientSets() { return kSets; }

const CoefficientSet& CoefficientSetOf(NewtonSchulzSet set) {
  for (const CoefficientSet& row : kSets) {
    if (row.set == set) return row;
  }
  return CoefficientSetOf(NewtonSchulzSet::kCustom);
}

absl::StatusOr<NewtonSchulzSet> NewtonSchulzSetByName(absl::string_view name) {
  for (const CoefficientSet& row : kSets) {
    if (row.name == name) return row.set;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "coefficient set: want one of ",
      absl::StrJoin(kSets, ", ",
                    [](std::string* out, const CoefficientSet& row) {
                      absl::StrAppend(out, row.name);
                    }),
      ", got \"", absl::CEscape(name), "\""));
}

}  // namespace muonshard
