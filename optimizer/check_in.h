// Counts the gradients of one step against what was declared.
//
// Threads    Guarded by its user.

#ifndef OPTIMIZER_CHECK_IN_H_
#define OPTIMIZER_CHECK_IN_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/control_vector.h"
#include "optimizer/parameter_spec.h"

namespace muonshard {

class CheckInLedger {
 public:
  // `lives_here` says of each parameter whether this rank has it. `specs`
  // outlives the ledger.
  CheckInLedger(const std::vector<ParameterSpec>& specs,
                std::vector<bool> lives_here)
      : specs_(specs),
        lives_here_(std::move(lives_here)),
        counts_(specs.size()) {}

  void Begin(int64_t step, int32_t micro_batches);

  // Which check-in of the step this is. Of a kSyncOnly parameter none is known
  // to be the last.
  struct Turn {
    bool first = false;
    bool last = false;
  };

  // Counts one, or says what is wrong with it and marks the step as failed.
  absl::StatusOr<Turn> Count(int32_t parameter, int64_t count, DataType dtype);

  // After the last check-in: marks what is missing. By parameter, whether
  // there was no gradient at all although it lives here.
  std::vector<bool> End();

  const std::optional<StepFailure>& failure() const { return failure_; }

 private:
  absl::Status CheckGradient(const ParameterSpec& spec, int64_t count,
                             DataType dtype) const;
  absl::Status Fail(int32_t parameter, FailureKind kind, absl::Status error);

  const std::vector<ParameterSpec>& specs_;
  const std::vector<bool> lives_here_;  // By parameter.
  int64_t step_ = 0;
  int32_t micro_batches_ = 0;
  std::vector<int32_t> counts_;  // By parameter.
  std::optional<StepFailure> failure_;
};

}  // namespace muonshard

#endif  // OPTIMIZER_CHECK_IN_H_
