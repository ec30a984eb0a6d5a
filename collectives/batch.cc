#include "collectives/batch.h"

#include <utility>

#include "collectives/post_calls.h"

namespace muonshard {

absl::Status Batch::Add(Collective& collective, Operation operation) {
  if (absl::Status s =
          CheckOperation(operation, collective.rank(), collective.size(),
                         collective.capabilities());
      !s.ok()) {
    return s;
  }
  absl::StatusOr<std::vector<LaunchLevel>> levels =
      collective.Lower(std::move(operation));
  if (!levels.ok()) return levels.status();
  calls_.push_back(*std::move(levels));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Work>> Batch::Post() {
  return PostCalls(std::exchange(calls_, {}));
}

}  // namespace muonshard
