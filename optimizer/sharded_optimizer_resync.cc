#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/resync.h"
#include "optimizer/sharded_optimizer_impl.h"

namespace muonshard {

absl::Status ShardedOptimizerImpl::CheckCanResync(
    const Collective& world) const {
  if (phase_ == Phase::kHandedOver) {
    return absl::FailedPreconditionError(
        "resync: want an optimizer that has its memory, got one of which "
        "Resync has made another");
  }
  if (&world.runtime() != &runtime_) {
    return absl::InvalidArgumentError(
        "resync: want a group on the runtime of the failed one");
  }
  if (world.rank() != memory_->rank || world.size() != plan_.mesh.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("resync: want rank ", ToInt(memory_->rank), " of ",
                     plan_.mesh.size(), " as in the failed group, got rank ",
                     ToInt(world.rank()), " of ", world.size()));
  }
  return CheckAllBound();
}

absl::Status ShardedOptimizerImpl::TakeCommonStep(Collective& world,
                                                  absl::Time deadline) {
  const StepStanding own = updater_.standing();
  absl::StatusOr<std::vector<StepStanding>> standings =
      ExchangeStandings(world, own, deadline);
  if (!standings.ok()) return standings.status();
  const absl::StatusOr<CommonStep> common = CommonStepOf(*standings);
  if (!common.ok()) return common.status();
  if (!common->teller.has_value()) return absl::OkStatus();
  // The latest record is of the common step on all ranks: nobody has given more
  // than that to Step, and ranks that are behind kept it.
  const absl::Status s =
      ShareControl(world, *common->teller, updater_.latest(), deadline);
  if (!s.ok()) return s;
  if (own.decided < common->step) updater_.TakeDecision();
  return absl::OkStatus();
}

absl::Status ShardedOptimizerImpl::GoOnBehind(
    const ShardedOptimizerImpl& failed, absl::Time deadline) {
  updater_.Follow(failed.updater_);
  if (absl::Status s = updater_.GatherAgain(deadline); !s.ok()) return s;
  step_ = updater_.last_decided().control.step;
  if (step_ == memory_->restored_step) return absl::OkStatus();
  phase_ = Phase::kStepped;
  taken_step_ = step_;
  told_step_ = step_;
  return absl::OkStatus();
}

}  // namespace muonshard
