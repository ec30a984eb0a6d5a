// One rank's part of a training run: a replica of the model, the sharded
// optimizer driven by the replica's hooks, and the loop over steps.
//
//   forward     each parameter is waited for just before its first use
//   backward    each gradient is handed to the optimizer as autograd leaves it
//   finish      the optimizer reduces what is left, then updates and gathers
//               while the next forward begins
//
// Threads      One task per rank; all ranks of the run at once, or one alone in
//              each process.
// Errors       The first one on this rank, which also aborts the group so that
//              no other rank waits for it.

#ifndef TOOLS_TRAINER_RANK_TRAINER_H_
#define TOOLS_TRAINER_RANK_TRAINER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tools/trainer/train_run.h"
#include "topology/rank.h"

namespace muonshard {

// Held-out batches, of `kHeldOutSequences` sequences each; batch b is rank
// (b mod ranks)'s.
inline constexpr int64_t kHeldOutBatches = 32;
inline constexpr int64_t kHeldOutSequences = 8;

// What comes of it is in `run.results`.
absl::Status TrainOneRank(TrainRun& run, Rank rank);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_RANK_TRAINER_H_
