// Small inputs for tests of the unsharded optimizer.

#ifndef TESTING_UNSHARDED_CASE_H_
#define TESTING_UNSHARDED_CASE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/data_type.h"
#include "optimizer/compute/convert.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/unsharded/unsharded_optimizer.h"
#include "testing/known_spectra.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {

using Bytes = std::vector<std::byte>;

inline Bytes As(DataType type, const std::vector<float>& values) {
  Bytes bytes(values.size() * ByteWidth(type));
  FromFloat(type, values, bytes.data());
  return bytes;
}

inline std::vector<float> RandomFloats(const ParameterSpec& spec,
                                       uint64_t seed) {
  const std::vector<double> values = RandomValues(ElementCount(spec), seed);
  return {values.begin(), values.end()};
}

inline ParameterSpec Vector(std::string name, int64_t count) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = {count};
  return spec;
}

inline ParameterSpec Matrix(std::string name, std::vector<int64_t> shape) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  spec.rule = Rule::kMuon;
  return spec;
}

// Keeps the elements that an input borrows.
class Input {
 public:
  // A parameter with these gradients, one rank each; none for an absent one.
  Input& Add(DataType dtype, const std::vector<std::vector<float>>& ranks) {
    LocalGradients local;
    local.dtype = dtype;
    local.groups.emplace_back();
    for (const std::vector<float>& values : ranks) {
      kept_.push_back(As(dtype, values));
      local.groups[0].push_back({kept_.back().data()});
    }
    if (ranks.empty()) local.groups.clear();
    step.gradients.push_back(std::move(local));
    return *this;
  }

  UnshardedStepInput step;

 private:
  std::deque<Bytes> kept_;
};

inline UnshardedOptimizer Make(const std::vector<ParameterSpec>& specs,
                               const std::vector<std::vector<float>>& values,
                               const OptimizerOptions& options = {}) {
  std::vector<Bytes> parameters;
  for (size_t i = 0; i < specs.size(); ++i) {
    parameters.push_back(As(specs[i].dtype, values[i]));
  }
  auto optimizer = UnshardedOptimizer::Create(
      specs, options, std::vector<int64_t>(specs.size(), 1),
      std::move(parameters));
  EXPECT_THAT(optimizer, IsOk());
  return *std::move(optimizer);
}

inline std::vector<float> ValueOf(const UnshardedOptimizer& optimizer,
                                  size_t index) {
  const std::span<const std::byte> bytes = optimizer.parameter(index);
  std::vector<float> values(bytes.size() / sizeof(float));
  ToFloat(DataType::kF32, bytes.data(), values);
  return values;
}

// Divides a matrix by its norm and subtracts it.
inline OptimizerOptions PlainOptions() {
  OptimizerOptions options;
  options.muon.learning_rate = 1;
  options.muon.weight_decay = 0;
  options.muon.momentum = 0;
  options.muon.coefficient_set = NewtonSchulzSet::kCustom;
  options.muon.custom_coefficients = {{1, 0, 0}};
  options.muon.newton_schulz_steps = 1;
  options.adamw.learning_rate = 1;
  options.adamw.weight_decay = 0;
  options.adamw.beta1 = 0;
  options.adamw.beta2 = 0;
  return options;
}

}  // namespace muonshard::testing

#endif  // TESTING_UNSHARDED_CASE_H_
