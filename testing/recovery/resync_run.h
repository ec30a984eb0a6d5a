// Three steps of a small optimizer whose second one goes wrong on some ranks,
// with a Resync on each of some new groups before the third. What fails in the
// second step and inside each Resync is told per rank.
//
// In this file
//   world    0: in which the steps 1 and 2 are taken; then one for each Resync,
//            and the last one is that of step 3
//   attempt  of a world: step 2, or a Resync. A rank whose Resync succeeded
//            resyncs what it made in the next world with the others.

#ifndef TESTING_RECOVERY_RESYNC_RUN_H_
#define TESTING_RECOVERY_RESYNC_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "testing/operation_count.h"
#include "testing/rank_harness.h"
#include "testing/recovery/rank_copy.h"
#include "testing/sharded_case.h"

namespace muonshard::testing {

// The result of the operation with this label is lost on these ranks.
struct LostResult {
  std::string label;
  std::vector<int32_t> losers;
};

struct ResyncRunOptions {
  RuntimeCase runtime;
  std::string faults;  // A plan of loopback.
  // By world, of which there are as many, and one more.
  std::vector<LostResult> lost;
};

struct ResyncRun {
  // In rank order: OK where the third step is over.
  std::vector<absl::Status> results;
  absl::Status ended;
  // [rank][world]; what a rank did not come to is absent.
  std::vector<std::vector<absl::Status>> attempts;
  std::vector<std::vector<OperationRange>> operations;
  // By rank: the last step that counts, as the last Resync told.
  std::vector<StepOutcome> last;
  std::vector<std::vector<ParameterBytes>> parameters;
  std::vector<RankCopy> copies;  // After step 1.
  absl::Duration simulated;
  std::string plugin_report;
};

// `sharded` is of three steps, without a scaler.
ResyncRun RunResyncs(const ShardedCase& sharded,
                     const ResyncRunOptions& options);

// What RunUnsharded says, from copies: steps 2 and 3 on new ranks.
std::vector<std::vector<ParameterBytes>> RunFromCopies(
    const ShardedCase& sharded, const RuntimeCase& runtime,
    const std::vector<RankCopy>& copies);

}  // namespace muonshard::testing

#endif  // TESTING_RECOVERY_RESYNC_RUN_H_
