#include "optimizer/muon_unit.h"

namespace muonshard {

MuonUnit MuonUnitOf(const ParameterSpec& spec, int64_t rows) {
  MuonUnit unit = {.rows = rows,
                   .cols = spec.shape.back(),
                   .column_blocks = {},
                   .fan_out_dimension = spec.fan_out_dimension};
  // Blocks of rows are units of their own, and padding rows are in none.
  if (spec.blocks.dimension == 1) {
    unit.column_blocks = spec.blocks.sizes;
    unit.padding_columns = spec.blocks.padding;
  }
  return unit;
}

}  // namespace muonshard
