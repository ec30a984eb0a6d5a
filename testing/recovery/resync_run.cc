#include "testing/recovery/resync_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/collective.h"
#include "optimizer/grad_scaler.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/lossy_world.h"
#include "testing/optimizer_rig.h"
#include "testing/status_matchers.h"
#include "topology/mesh.h"

namespace muonshard::testing {
namespace {

class RankResyncs {
 public:
  RankResyncs(const ShardedCase& sharded, const ResyncRunOptions& options,
              RankContext& context, ResyncRun& run)
      : sharded_(sharded),
        options_(options),
        context_(context),
        r_(static_cast<size_t>(ToInt(context.rank))),
        run_(run) {}

  absl::Status Run() {
    absl::Status s = TakeTwoSteps();
    for (size_t world = 1; s.ok() && world <= options_.lost.size(); ++world) {
      s = ResyncIn(world);
    }
    if (s.ok()) s = run_.attempts[r_].back();
    if (s.ok()) s = TakeRigStep(sharded_, context_.rank, 3, *rig_.optimizer);
    if (s.ok()) s = rig_.optimizer->Synchronize();
    run_.parameters[r_] = rig_.parameters;
    if (s.ok()) s = MeetAll(*worlds_.back());
    rig_.optimizer.reset();
    return s;
  }

 private:
  int64_t OperationCount() const {
    const absl::StatusOr<std::string> report = context_.plugin.Report();
    return report.ok() ? OperationCountIn(*report, context_.rank) : 0;
  }

  void Note(const absl::Status& attempt, int64_t begin) {
    run_.attempts[r_].push_back(attempt);
    run_.operations[r_].push_back({.begin = begin, .end = OperationCount()});
  }

  // Puts `world` behind what is lost in it.
  absl::Status Enter(size_t number, Collective& world) {
    LostResult lost;
    if (number < options_.lost.size()) lost = options_.lost[number];
    const bool loses = std::ranges::count(lost.losers, ToInt(context_.rank));
    absl::StatusOr<std::unique_ptr<Collective>> broken = world.Split(
        ToInt(context_.rank), 0, "broken", GuardDeadline(context_.runtime));
    if (!broken.ok()) return broken.status();
    (*broken)->Abort(absl::UnavailableError("cable pulled"));
    worlds_.push_back(std::make_unique<LossyWorld>(
        world, lost.label, loses ? broken->get() : nullptr));
    broken_.push_back(*std::move(broken));
    return absl::OkStatus();
  }

  absl::Status TakeTwoSteps() {
    if (absl::Status s = Enter(0, *context_.world); !s.ok()) return s;
    absl::StatusOr<OptimizerRig> rig = MakeRig(sharded_, *worlds_.back());
    if (!rig.ok()) return rig.status();
    rig_ = *std::move(rig);
    absl::Status s = TakeRigStep(sharded_, context_.rank, 1, *rig_.optimizer);
    if (s.ok()) s = rig_.optimizer->Synchronize();
    if (!s.ok()) return s;
    absl::StatusOr<GradScaler> scaler = GradScaler::Create({});
    if (!scaler.ok()) return scaler.status();
    absl::StatusOr<RankCopy> copy =
        CopyOfRank(1, rig_.parameters, *scaler, *rig_.optimizer);
    if (!copy.ok()) return copy.status();
    run_.copies[r_] = *std::move(copy);
    const int64_t begin = OperationCount();
    s = TakeRigStep(sharded_, context_.rank, 2, *rig_.optimizer);
    if (s.ok()) s = rig_.optimizer->Synchronize();
    Note(s, begin);
    if (!s.ok()) {
      EXPECT_THAT(std::string(rig_.optimizer->BeginStep(1).message()),
                  ::testing::HasSubstr("want Resync on a new group"));
    }
    return absl::OkStatus();
  }

  absl::Status ResyncIn(size_t number) {
    absl::StatusOr<std::unique_ptr<Collective>> fresh =
        context_.plugin.NewGroup({.rank = context_.rank,
                                  .size = context_.world->size(),
                                  .name = absl::StrCat("world/", number),
                                  .deadline = GuardDeadline(context_.runtime),
                                  .store = &context_.store});
    if (!fresh.ok()) return fresh.status();
    fresh_.push_back(*std::move(fresh));
    if (absl::Status s = Enter(number, *fresh_.back()); !s.ok()) return s;
    const int64_t begin = OperationCount();
    absl::StatusOr<ShardedOptimizer::Resynced> resynced =
        ShardedOptimizer::Resync(*rig_.optimizer, *worlds_.back());
    Note(resynced.status(), begin);
    if (!resynced.ok()) return absl::OkStatus();
    EXPECT_THAT(rig_.optimizer->BeginStep(1),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         "Resync has made another optimizer"));
    rig_.optimizer = std::move(resynced->optimizer);
    run_.last[r_] = resynced->last;
    return absl::OkStatus();
  }

  const ShardedCase& sharded_;
  const ResyncRunOptions& options_;
  RankContext& context_;
  const size_t r_;
  ResyncRun& run_;
  std::vector<std::unique_ptr<Collective>> broken_;
  std::vector<std::unique_ptr<Collective>> fresh_;
  std::vector<std::unique_ptr<Collective>> worlds_;
  OptimizerRig rig_;
};

}  // namespace

ResyncRun RunResyncs(const ShardedCase& sharded,
                     const ResyncRunOptions& options) {
  ResyncRun run;
  const int32_t size = Mesh::Parse(sharded.mesh)->size();
  const auto ranks = static_cast<size_t>(size);
  run.attempts.resize(ranks);
  run.operations.resize(ranks);
  run.last.resize(ranks);
  run.parameters.resize(ranks);
  run.copies.resize(ranks);
  RankRun all =
      RunOnRanks({.runtime = options.runtime,
                  .size = size,
                  .plugin_options =
                      absl::StrCat("{\"faults\": \"", options.faults, "\"}")},
                 [&](RankContext& context) {
                   return RankResyncs(sharded, options, context, run).Run();
                 });
  run.results = std::move(all.results);
  run.ended = std::move(all.ended);
  run.simulated = all.simulated;
  run.plugin_report = std::move(all.plugin_report);
  return run;
}

std::vector<std::vector<ParameterBytes>> RunFromCopies(
    const ShardedCase& sharded, const RuntimeCase& runtime,
    const std::vector<RankCopy>& copies) {
  std::vector<std::vector<ParameterBytes>> parameters(copies.size());
  const auto results = RunWithRigs(
      sharded, {.runtime = runtime},
      [&](Collective& world, OptimizerRig& rig) -> absl::Status {
        const auto r = static_cast<size_t>(ToInt(world.rank()));
        absl::StatusOr<GradScaler> scaler = GradScaler::Create({});
        if (!scaler.ok()) return scaler.status();
        absl::Status s =
            RestoreRank(copies[r], rig.parameters, *scaler, *rig.optimizer);
        for (const int64_t step : {2, 3}) {
          if (s.ok()) {
            s = TakeRigStep(sharded, world.rank(), step, *rig.optimizer);
          }
          if (s.ok()) s = rig.optimizer->Synchronize();
        }
        if (s.ok()) parameters[r] = rig.parameters;
        return s;
      });
  return parameters;
}

}  // namespace muonshard::testing
