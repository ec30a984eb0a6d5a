// What all ranks tell one another before a step: two vectors of integers, one
// summed and one whose least is taken over the world, and the one decision
// that follows from them on every rank.
//
// Sums       the exact squared norm, non-finite elements that count in it and
//            that do not, and for each parameter on how many ranks it is absent
// Least      [x, -x] of each fact that must be equal, the fields of the step's
//            options among them, and the first failure
// Result     A pure function of the reduced vectors, so every rank decides the
//            same. A parameter has one absent count for each place where it
//            lives; see parameter_places.h.

#ifndef OPTIMIZER_CONTROL_VECTOR_H_
#define OPTIMIZER_CONTROL_VECTOR_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "optimizer/compute/exact_sum.h"
#include "optimizer/options.h"
#include "optimizer/parameter_places.h"
#include "optimizer/plan.h"
#include "optimizer/step_options.h"

namespace muonshard {

enum class FailureKind : int32_t {
  kTooManyCheckIns = 0,
  kTooFewCheckIns = 1,
  kWrongGradient = 2,
  kStepOptions = 3,      // `parameter` is a field, see FieldsOf.
  kFailedReduction = 4,  // `parameter` is the first of the bucket.
  kDoesNotLiveHere = 5,
  kUnknownSchedule = 6,  // `parameter` is 0.
  kLearningRate = 7,
};

// Why this rank cannot take the step.
struct StepFailure {
  int32_t parameter = 0;
  FailureKind kind = FailureKind::kTooManyCheckIns;
};

// What one rank brings.
struct ControlInput {
  int64_t step = 0;
  int32_t micro_batches = 1;
  StepOptions options;
  ExactSum squared_norm;  // Of what this rank counts; see Reducer.
  int64_t non_finite_count = 0;
  // Of segments that do not count in the norm. They matter where a rank's
  // gradient should be that of another and is not.
  int64_t uncounted_non_finite_count = 0;
  std::optional<StepFailure> failure;  // The first by parameter.
  std::vector<bool> absent;  // By parameter; false where it does not live.
};

struct StepDecision {
  // An error is the step's, on every rank.
  absl::Status status;
  // The error is that a reduction failed, and not the program's.
  bool reduction_failed = false;
  StepOutcome outcome;
  double gradient_factor = 1;  // What gradients are multiplied by.
  // By parameter: absent wherever this rank's values live.
  std::vector<bool> absent_everywhere;
};

// The layout for one rank of a plan.
class ControlVector {
 public:
  ControlVector(const Plan& plan, Rank rank);

  size_t sum_count() const { return sum_count_; }
  size_t least_count() const { return 2 * fact_count_ + 1; }

  // What is wrong with a step's options, if anything.
  std::optional<StepFailure> Check(const OptimizerOptions& options,
                                   const StepOptions& step) const;
  const std::vector<std::string>& schedules() const { return schedules_; }

  // Fills vectors of these counts.
  void Encode(const ControlInput& input, std::span<int64_t> sums,
              std::span<int64_t> least) const;

  StepDecision Decide(const ControlInput& input,
                      const std::vector<int64_t>& sums,
                      const std::vector<int64_t>& least) const;

 private:
  struct AbsentSlots {
    size_t first = 0;           // In the sums.
    ParameterPlaces places;     // One slot for each.
    std::optional<size_t> own;  // Which of them is this rank's, if any.
  };

  absl::Status FailureStatus(int64_t code) const;
  absl::Status CheckFacts(const ControlInput& input,
                          const std::vector<int64_t>& least) const;
  absl::Status CheckAbsent(const std::vector<int64_t>& sums) const;

  const Plan& plan_;
  const Rank rank_;
  const std::vector<std::string> schedules_;
  const size_t fact_count_;
  std::vector<AbsentSlots> absent_;  // By parameter.
  size_t sum_count_ = 0;
};

}  // namespace muonshard

#endif  // OPTIMIZER_CONTROL_VECTOR_H_
