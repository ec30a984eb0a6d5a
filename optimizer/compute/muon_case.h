// A Muon update as a value, for tests that hold updates against each other and
// against formulas.

#ifndef OPTIMIZER_COMPUTE_MUON_CASE_H_
#define OPTIMIZER_COMPUTE_MUON_CASE_H_

#include <cmath>
#include <cstddef>
#include <vector>

#include "collectives/data_type.h"
#include "optimizer/compute/convert.h"
#include "optimizer/compute/update.h"
#include "optimizer/muon_options.h"

namespace muonshard {

using Bytes = std::vector<std::byte>;

inline std::vector<float> Wave(size_t count, double frequency) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] =
        static_cast<float>(std::sin(frequency * static_cast<double>(i + 1)));
  }
  return values;
}

inline Bytes As(DataType type, const std::vector<float>& values) {
  Bytes bytes(values.size() * ByteWidth(type));
  FromFloat(type, values, bytes.data());
  return bytes;
}

inline std::vector<float> Values(DataType type, const Bytes& bytes) {
  std::vector<float> values(bytes.size() / ByteWidth(type));
  ToFloat(type, bytes.data(), values);
  return values;
}

inline std::vector<float> Rounded(DataType type,
                                  const std::vector<float>& values) {
  return Values(type, As(type, values));
}

// An iteration that only divides by the Frobenius norm, so that results can be
// had in closed form.
inline MuonOptions NormalizeOnly() {
  MuonOptions options;
  options.coefficient_set = NewtonSchulzSet::kCustom;
  options.custom_coefficients = {{1, 0, 0}};
  options.newton_schulz_steps = 1;
  return options;
}

struct MuonCase {
  MuonUnit unit;
  MuonOptions options;
  UpdateFactors factors;
  DataType gradient_dtype = DataType::kF32;
  DataType parameter_dtype = DataType::kF32;
  std::vector<float> gradient;
  std::vector<float> momentum;
  std::vector<float> row_moments = {};
  std::vector<float> parameter;
};

inline MuonCase SmallMuonCase() {
  MuonCase test;
  test.unit = {
      .rows = 3, .cols = 4, .column_blocks = {}, .fan_out_dimension = 0};
  test.options = NormalizeOnly();
  test.factors = {.learning_rate = 0.5,
                  .weight_decay = 0.25,
                  .gradient_factor = 1,
                  .step = 1};
  test.gradient = Wave(12, 1.0);
  test.momentum = Wave(12, 0.3);
  test.parameter = Wave(12, 0.7);
  return test;
}

// Returns the new parameter; `test.momentum` becomes the new momentum.
inline std::vector<float> Update(MuonCase& test) {
  const Bytes gradient = As(test.gradient_dtype, test.gradient);
  Bytes parameter = As(test.parameter_dtype, test.parameter);
  std::vector<float> workspace(
      static_cast<size_t>(MuonWorkspaceCount(test.unit, test.options)));
  MuonUpdate(test.unit, test.options, test.factors, test.gradient_dtype,
             gradient.data(),
             {.momentum = test.momentum, .row_moments = test.row_moments},
             test.parameter_dtype, parameter.data(), parameter.data(),
             workspace);
  return Values(test.parameter_dtype, parameter);
}

}  // namespace muonshard

#endif  // OPTIMIZER_COMPUTE_MUON_CASE_H_
