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
  absl::StatusOr<std::vector<Launch>> launches =
      collective.Lower(std::move(operation));
  if (!launches.ok()) return launches.status();
  calls_.push_back(*std::move(launches));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Work>> Batch::Post() {
  return PostCalls(std::exchange(calls_, {}));
}

}  // namespace muonshard
