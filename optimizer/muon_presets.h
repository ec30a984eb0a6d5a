// Hyper-parameters by which other Muons are known.
//
// A preset gives the update that its source computes in exact arithmetic. What
// products are rounded to is not part of it: the sources iterate in bf16 where
// the device has it, a preset in MuonOptions' own default.

#ifndef OPTIMIZER_MUON_PRESETS_H_
#define OPTIMIZER_MUON_PRESETS_H_

#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "optimizer/muon_options.h"

namespace muonshard {

// A row of the table of presets. All of them move momentum as
// M = momentum M + (1 - momentum) g, or by a multiple of it, decay before the
// update, and take five steps of the set "simple".
struct MuonPresetRow {
  absl::string_view name;
  absl::string_view source;
  double learning_rate = 0;
  double weight_decay = 0;
  double momentum = 0;
  bool nesterov = false;
  double epsilon = 0;
  MuonScale scale = MuonScale::kSpectral;
};

std::span<const MuonPresetRow> MuonPresets();

// "torch", "keller_jordan", "moonlight" or "paddle"; kInvalidArgument lists
// these.
absl::StatusOr<MuonOptions> MuonPreset(absl::string_view name);

}  // namespace muonshard

#endif  // OPTIMIZER_MUON_PRESETS_H_
