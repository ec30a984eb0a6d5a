#include "optimizer/unit.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "optimizer/compute/newton_schulz.h"
#include "optimizer/compute/update.h"
#include "optimizer/muon_unit.h"

namespace muonshard {
namespace {

// Leaves sums over a plan a factor of two below the end of int64_t.
constexpr double kFlopsMax = 4.0e18;

// How the matrices of one parameter are cut: into units of these heights, one
// below the other, each of blocks of these widths. Padding is in neither.
struct MatrixCut {
  int64_t bank = 1;
  int64_t rows = 0;
  std::vector<int64_t> unit_rows;
  std::vector<int64_t> column_blocks;
};

MatrixCut CutOf(const ParameterSpec& spec) {
  MatrixCut cut;
  const size_t matrix = spec.shape.size() - 2;
  if (matrix == 1) cut.bank = spec.shape[0];
  cut.rows = spec.shape[matrix];
  cut.unit_rows = {cut.rows};
  cut.column_blocks = {spec.shape[matrix + 1]};
  std::vector<int64_t>& cut_dimension =
      spec.blocks.dimension == 0 ? cut.unit_rows : cut.column_blocks;
  if (spec.blocks.sizes.empty()) {
    cut_dimension.front() -= spec.blocks.padding;
  } else {
    cut_dimension = spec.blocks.sizes;
  }
  return cut;
}

}  // namespace

int64_t StateBytesPerElement(Rule rule, DataType parameter_dtype,
                             bool master_weights) {
  const int64_t state = rule == Rule::kMuon ? 4 : 8;
  const bool has_master = master_weights && parameter_dtype != DataType::kF32;
  return state + (has_master ? 4 : 0);
}

absl::StatusOr<std::vector<Unit>> ListUnits(
    const std::vector<ParameterSpec>& specs, const OptimizerOptions& options) {
  std::vector<Unit> units;
  double flops_of_all = 0;
  for (size_t p = 0; p < specs.size(); ++p) {
    const ParameterSpec& spec = specs[p];
    if (spec.rule != Rule::kMuon) continue;
    const MatrixCut cut = CutOf(spec);
    for (const int64_t rows : cut.unit_rows) {
      for (const int64_t cols : cut.column_blocks) {
        flops_of_all +=
            static_cast<double>(cut.bank) *
            ApproximateNewtonSchulzFlops(rows, cols, options.muon);
      }
    }
    if (flops_of_all > kFlopsMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter \"", absl::CEscape(spec.name), "\": shape: want at most ",
          kFlopsMax, " Newton-Schulz flops a step up to here, got ",
          flops_of_all));
    }
    for (int64_t matrix = 0; matrix < cut.bank; ++matrix) {
      int64_t offset = matrix * cut.rows * spec.shape.back();
      for (const int64_t rows : cut.unit_rows) {
        Unit unit = {.parameter = static_cast<int32_t>(p),
                     .offset = offset,
                     .rows = rows,
                     .cols = spec.shape.back()};
        for (const int64_t cols : cut.column_blocks) {
          unit.flops += NewtonSchulzFlops(rows, cols, options.muon);
        }
        const MuonUnit shape = MuonUnitOf(spec, rows);
        unit.scratch_bytes = MuonWorkspaceCount(shape, options.muon) *
                             static_cast<int64_t>(sizeof(float));
        unit.state_bytes =
            unit.count() * StateBytesPerElement(spec.rule, spec.dtype,
                                                options.master_weights) +
            MuonRowMomentCount(shape, options.muon) *
                static_cast<int64_t>(sizeof(float));
        offset += unit.count();
        units.push_back(unit);
      }
    }
  }
  return units;
}

}  // namespace muonshard
