#include "collectives/batch.h"

#include <utility>

#include "collectives/check_operation.h"
#include "collectives/post_calls.h"

namespace muonshard {

absl::Status Batch::Add(Collective& collective, Operation operation) {
  if (absl::Status s =
          CheckOperation(operation, collective.rank(), collective.size(),
                         collective.capabilities());
      !s.ok()) {
    return s;
  }
  absl::StatusOr<LoweredCall> call = collective.Lower(std::move(operation));
  if (!call.ok()) return call.status();
  calls_.push_back(*std::move(call));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Work>> Batch::Post() {
  return PostCalls(std::exchange(calls_, {}));
}

}  // namespace muonshard
