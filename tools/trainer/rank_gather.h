// What ranks that are processes gather from each other, so that every one has
// what ranks in one process share. All of one build.
//
// Errors       As RankExchange. kDataLoss: what a rank gave is not what was
//              asked; the text says which.

#ifndef TOOLS_TRAINER_RANK_GATHER_H_
#define TOOLS_TRAINER_RANK_GATHER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/trainer/rank_exchange.h"
#include "tools/trainer/step_meter.h"
#include "tools/trainer/train_run.h"
#include "tools/trainer/verify.h"
#include "topology/rank.h"

namespace muonshard {

// Ends the backward of `step` on all ranks, in each rank's own verifier.
absl::Status GatherBackward(Rank own, int64_t step, double loss_scale,
                            RankExchange& exchange, Verifier& verifier);

// Completes the steps (first, last] of `meter`, once.
absl::Status GatherSteps(int64_t first, int64_t last, Rank own,
                         RankExchange& exchange, StepMeter& meter);

// `results` are by rank.
absl::Status GatherResults(const RankResult& own, RankExchange& exchange,
                           std::vector<RankResult>& results);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_RANK_GATHER_H_
