// A small key-value store through which the ranks of a job find each other.
//
// Keys         Non-empty; letters, digits and "._-/:". At most 512 bytes.
//              Made of job, generation, group name and a hash of the members,
//              so that a restarted job never reads a stale key.
// Threads      All methods from any task.
// Errors       kInvalidArgument for a bad key, kDeadlineExceeded when a key did
//              not come in time (the message names it), kUnavailable when the
//              store cannot be reached.

#ifndef COLLECTIVES_STORE_H_
#define COLLECTIVES_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"

namespace muonshard {

class Store {
 public:
  virtual ~Store() = default;

  // Sets `key`, whether or not it exists.
  virtual absl::Status Put(absl::string_view key, absl::string_view value) = 0;

  // Waits until `key` exists.
  virtual absl::StatusOr<std::string> Get(absl::string_view key,
                                          absl::Time deadline) = 0;

  // Adds to a counter that starts at 0 and returns the sum. Counters and
  // values have keys of their own.
  virtual absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) = 0;
};

// For ranks of one process.
std::unique_ptr<Store> NewInProcessStore(Runtime& runtime);

// For processes that share a folder, which is created if it is absent. Values
// are files, written aside and renamed, so that no reader sees half of one.
absl::StatusOr<std::unique_ptr<Store>> NewFileStore(Runtime& runtime,
                                                    absl::string_view folder);

absl::Status CheckStoreKey(absl::string_view key);

}  // namespace muonshard

#endif  // COLLECTIVES_STORE_H_
