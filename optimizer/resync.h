// Which decision the ranks of a broken world have in common, or can have.
//
// What a rank can be in when it gives up step k, and what the others can be in
// at the same time:
//
//   the rank                          step k - 1  step k      the others
//   k is not given to Step: a check-  decided     nothing     none decided k
//     in, a reduction or the program              posted
//     failed
//   control of k failed here          decided     undecided,  may have decided
//                                                 gradients   k; none began
//                                                 kept        k + 1's control
//   k decided; a gather failed, or    decided     decided,    may have failed
//     nothing did                                 own         in control; then
//                                                 segments    what they gave
//                                                 updated     to gathers is old
//   k decided, k + 1 begun            decided     decided     as above
//   the rank lost its memory          unknown     unknown     any
//
// A control all-reduce has its result only when every rank has given its part,
// so every rank has decided k - 1 when one decides k, and no two are more than
// one step apart. A rank that is behind kept what it gave to the control of k:
// its gradients are reduced and unused. From the reduced vectors of a rank that
// decided, it decides the same; the decision itself would not do, for which
// parameters are absent depends on where a rank is. A step that was decided to
// fail because a reduction had failed counts as not decided: it is taken again.
//
// Then the parameters of every bucket are gathered from their owners: from the
// bucket where the decided values were not copied out yet, else from the
// parameters themselves. What a rank has done stays done when another attempt
// is made, and of an optimizer that has resynced alone it is made too. Outcome
// is that of the common step, and BeginStep tells no error of it any more.
//
// In this file
//   standing   of one rank: the last step that it decided, and a later one if
//              it gave its part of that control and kept what the step needs
//   teller     the rank whose control vectors the ranks that are behind take

#ifndef OPTIMIZER_RESYNC_H_
#define OPTIMIZER_RESYNC_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "optimizer/step_record.h"
#include "topology/rank.h"

namespace muonshard {

struct StepStanding {
  int64_t decided = 0;  // 0: none.
  int64_t kept = 0;     // 0: none.
};

struct CommonStep {
  int64_t step = 0;
  std::optional<Rank> teller;  // If a rank is behind.
};

// kFailedPrecondition names every rank that can not be brought to the last step
// that any rank decided.
absl::StatusOr<CommonStep> CommonStepOf(
    std::span<const StepStanding> standings);

// Tells all ranks of `world` the own standing. A collective call.
absl::StatusOr<std::vector<StepStanding>> ExchangeStandings(
    Collective& world, const StepStanding& own, absl::Time deadline);

// Replaces the control vectors of `record` by those of `teller`, or leaves them
// as they are on error. A collective call.
absl::Status ShareControl(Collective& world, Rank teller, StepRecord& record,
                          absl::Time deadline);

}  // namespace muonshard

#endif  // OPTIMIZER_RESYNC_H_
