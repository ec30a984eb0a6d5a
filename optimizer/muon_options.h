// The hyper-parameters of Muon: the same on every rank.
//
// Defaults are those of torch.optim.Muon in PyTorch 2.11, by value.
//
// Errors     `Validate` returns kInvalidArgument that names the field, its
//            range and what was got. The functions that look a name up return
//            kInvalidArgument that lists the names there are.

#ifndef OPTIMIZER_MUON_OPTIONS_H_
#define OPTIMIZER_MUON_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/data_type.h"
#include "optimizer/newton_schulz_set.h"

namespace muonshard {

// What a matrix is divided by before the first step; formulas in
// optimizer/compute/newton_schulz.h.
enum class PreScaling : uint8_t {
  kOfSet,      // What the set presumes: kAol for kAol, else kFrobenius.
  kFrobenius,  // Its Frobenius norm.
  kAol,        // Row by row, by what bounds the spectral norm.
};

// What kAol leaves of the largest singular value at most. The bound itself
// would be 1, but the first polynomial of the set kAol is negative above 0.88,
// where it would turn the main direction of a matrix of rank 1 around.
inline constexpr double kAolSpectralNormMax = 0.85;

enum class NewtonSchulzIteration : uint8_t {
  kStandard,  // On the matrix.
  // On its smaller Gram matrix; the product of the steps' polynomials is
  // applied to the matrix at each restart and at the end.
  kGram,
};

// How the update of a matrix of fan_out x fan_in is scaled.
enum class MuonScale : uint8_t {
  kSpectral,       // sqrt(max(1, fan_out / fan_in)): torch "original".
  kMatchAdamWRms,  // rms_factor sqrt(max(fan_out, fan_in)): Moonlight.
  kFanRatio,       // sqrt(fan_out / fan_in).
  kNone,           // 1.
};

enum class WeightDecay : uint8_t {
  kDecoupled,  // Of every weight.
  // Of weights that have the sign of what is subtracted, or where one is zero.
  kCautious,
};

struct MuonOptions {
  double learning_rate = 1e-3;  // > 0
  double weight_decay = 0.1;    // >= 0
  WeightDecay weight_decay_kind = WeightDecay::kDecoupled;
  double momentum = 0.95;  // in [0, 1)
  bool nesterov = true;
  NewtonSchulzSet coefficient_set = NewtonSchulzSet::kSimple;
  // Of kCustom, 1 to 16, finite; of no other set.
  std::vector<NewtonSchulzCoefficients> custom_coefficients;
  // Of kPolarExpress: what singular values are taken to exceed their bound by.
  double polar_express_safety = 1.01;  // >= 1
  // kAol is refused for sets that presume another, as kFrobenius is for kAol.
  PreScaling pre_scaling = PreScaling::kOfSet;
  int32_t newton_schulz_steps = 0;  // in [0, 16]; 0: the length of the set
  NewtonSchulzIteration iteration = NewtonSchulzIteration::kStandard;
  // Of kGram: steps from one restart to the next.
  int32_t gram_restart_interval = 2;  // >= 1
  // f64, f32, bf16 or f16: what products read and are rounded to.
  DataType newton_schulz_dtype = DataType::kF32;
  double epsilon = 1e-7;  // > 0; floor of the norm
  MuonScale scale = MuonScale::kSpectral;
  double rms_factor = 0.2;  // > 0; of kMatchAdamWRms
  // NorMuon (arXiv 2510.05491): rows of the orthogonal factor are divided by
  // the root of a running mean of their squares, and its Frobenius norm is
  // kept.
  bool row_normalization = false;
  double row_beta2 = 0.95;  // in [0, 1)
};

// Fields are named "muon.<field>".
absl::Status Validate(const MuonOptions& options);

// The number of steps that will run.
int32_t NewtonSchulzSteps(const MuonOptions& options);

// One entry for each step that will run. The last of a set is held, never
// wrapped. A safety factor f of kPolarExpress makes (a, b, c) into
// (a / f, b / f^3, c / f^5), except for the last of the set, which may run
// where all singular values are 1.
std::vector<NewtonSchulzCoefficients> StepCoefficients(
    const MuonOptions& options);

// `pre_scaling`, with kOfSet resolved.
PreScaling PreScalingOf(const MuonOptions& options);

// "unknown" for a value outside the enumeration.
absl::string_view PreScalingName(PreScaling pre_scaling);
absl::string_view NewtonSchulzIterationName(NewtonSchulzIteration iteration);
absl::string_view MuonScaleName(MuonScale scale);
absl::string_view WeightDecayName(WeightDecay decay);

absl::StatusOr<PreScaling> PreScalingByName(absl::string_view name);
absl::StatusOr<NewtonSchulzIteration> NewtonSchulzIterationByName(
    absl::string_view name);
absl::StatusOr<MuonScale> MuonScaleByName(absl::string_view name);
absl::StatusOr<WeightDecay> WeightDecayByName(absl::string_view name);

}  // namespace muonshard

#endif  // OPTIMIZER_MUON_OPTIONS_H_
