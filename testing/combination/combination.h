// One choice of all features that have to work together, as a value.

#ifndef TESTING_COMBINATION_COMBINATION_H_
#define TESTING_COMBINATION_COMBINATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/data_type.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "testing/combination/covering_array.h"

namespace muonshard::testing {

struct Combination {
  // The number of values of each feature, in the order of the members.
  static std::vector<int32_t> ValueCounts();
  static Combination Of(const Row& row);

  bool overlap = false;
  Hierarchy hierarchy = Hierarchy::kOff;
  bool scaler = false;
  int32_t micro_batches = 1;
  DataType precision = DataType::kF32;
  GatherMode gather = GatherMode::kEager;
  bool release_gradients = false;
  // What it means that some parameters have no gradient in the first step;
  // none: all have one.
  std::optional<AbsentGradient> absent;
};

std::vector<Combination> AllCombinations();
// Of these, some that contain every triple of values.
std::vector<Combination> TriplesOfCombinations();

// "overlap=on hierarchy=auto ...".
std::string ToString(const Combination& combination);

}  // namespace muonshard::testing

#endif  // TESTING_COMBINATION_COMBINATION_H_
