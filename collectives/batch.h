// Calls that are posted together: one launch per level and plugin.
//
// A Batch is a value. Calls are collected, checked and then started all at
// once, or not at all. Operations of one collective run in the order added.
//
//   Batch batch;
//   if (absl::Status s = batch.Add(shard_group, reduce_scatter); !s.ok()) ...
//   if (absl::Status s = batch.Add(world, all_reduce); !s.ok()) ...
//   absl::StatusOr<std::vector<Work>> works = batch.Post();
//
// Threads      One task at a time; see Collective for the collectives in it.
// Errors       `Add` returns what the call itself would. After an error of
//              `Post` nothing was started; it names the operation at fault.
//              Where a later level or a second plugin fails, something was:
//              then the works of those calls end with the error.

#ifndef COLLECTIVES_BATCH_H_
#define COLLECTIVES_BATCH_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/collective.h"
#include "collectives/launch.h"
#include "collectives/operation.h"
#include "collectives/work.h"

namespace muonshard {

class Batch {
 public:
  // Checks and collects a call. `collective` outlives `Post`.
  absl::Status Add(Collective& collective, Operation operation);

  // Starts what was added and leaves the batch empty. Work i is of the i-th
  // call added; it ends when the last level of its call has. An empty batch
  // gives no works.
  absl::StatusOr<std::vector<Work>> Post();

  bool empty() const { return calls_.empty(); }

 private:
  std::vector<LoweredCall> calls_;
};

}  // namespace muonshard

#endif  // COLLECTIVES_BATCH_H_
