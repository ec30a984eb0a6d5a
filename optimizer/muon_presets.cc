#include "optimizer/muon_presets.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muonshard {
namespace {

constexpr MuonPresetRow kPresets[] = {
    {.name = "torch",
     .source = "torch.optim.Muon of PyTorch 2.11, torch/optim/_muon.py",
     .learning_rate = 1e-3,
     .weight_decay = 0.1,
     .momentum = 0.95,
     .nesterov = true,
     .epsilon = 1e-7,
     .scale = MuonScale::kSpectral},
    // Adds epsilon to the norm instead of taking it as the least norm.
    {.name = "keller_jordan",
     .source = "class Muon of github.com/KellerJordan/Muon, muon.py",
     .learning_rate = 0.02,
     .weight_decay = 0,
     .momentum = 0.95,
     .nesterov = true,
     .epsilon = 1e-7,
     .scale = MuonScale::kSpectral},
    // Momentum is the sum momentum M + g, 1 / (1 - momentum) times ours, which
    // the division by the norm takes away. Adds epsilon, as the one above.
    {.name = "moonlight",
     .source = "class Muon of github.com/MoonshotAI/Moonlight, "
               "examples/toy_train.py; arXiv 2502.16982",
     .learning_rate = 1e-3,
     .weight_decay = 0.1,
     .momentum = 0.95,
     .nesterov = true,
     .epsilon = 1e-7,
     .scale = MuonScale::kMatchAdamWRms},
    // Paddle's rate 0.02 and decay 0.01, with its factor of 0.2 for every
    // update made part of the rate: rate * factor = 0.004, and the same
    // rate * decay = 0.0002. Its weights have fan_out_dimension 1.
    {.name = "paddle",
     .source = "class Muon of PaddlePaddle, python/paddle/optimizer/muon.py, "
               "version 1",
     .learning_rate = 0.004,
     .weight_decay = 0.05,
     .momentum = 0.95,
     .nesterov = true,
     .epsilon = 1e-9,
     .scale = MuonScale::kSpectral},
};

}  // namespace

std::span<const MuonPresetRow> MuonPresets() { return kPresets; }

absl::StatusOr<MuonOptions> MuonPreset(absl::string_view name) {
  for (const MuonPresetRow& row : kPresets) {
    if (row.name != name) continue;
    MuonOptions options;
    options.learning_rate = row.learning_rate;
    options.weight_decay = row.weight_decay;
    options.momentum = row.momentum;
    options.nesterov = row.nesterov;
    options.epsilon = row.epsilon;
    options.scale = row.scale;
    return options;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "Muon preset: want one of ",
      absl::StrJoin(kPresets, ", ",
                    [](std::string* out, const MuonPresetRow& row) {
                      absl::StrAppend(out, row.name);
                    }),
      "; got \"", absl::CEscape(name), "\""));
}

}  // namespace muonshard
