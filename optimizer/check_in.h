// Counts the gradients of one step against what was declared.
//
// Threads    Guarded by its user.

#ifndef OPTIMIZER_CHECK_IN_H_
#define OPTIMIZER_CHECK_IN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/control_vector.h"
#include "optimizer/parameter_spec.h"

namespace muonshard {

class CheckInLedger {
 public:
  explicit CheckInLedger(const std::vector<ParameterSpec>& specs)
      : specs_(specs), counts_(specs.size()) {}

  void Begin(int64_t step, int32_t micro_batches);

  // Which check-in of the step this is.
  struct Turn {
    bool first = false;
    bool last = false;
  };

  // Counts one, or says what is wrong with it and marks the step as failed.
  absl::StatusOr<Turn> Count(int32_t parameter, int64_t count, DataType dtype);

  // After the last check-in: marks what is missing. By parameter, whether
  // there was no gradient at all.
  std::vector<bool> End();

  const std::optional<StepFailure>& failure() const { return failure_; }

 private:
  absl::Status Fail(int32_t parameter, FailureKind kind, absl::Status error);

  const std::vector<ParameterSpec>& specs_;
  int64_t step_ = 0;
  int32_t micro_batches_ = 0;
  std::vector<int32_t> counts_;  // By parameter.
  std::optional<StepFailure> failure_;
};

}  // namespace muonshard

#endif  // OPTIMIZER_CHECK_IN_H_
