#include "testing/recovery/recovered_run.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "testing/recovery/rank_copy.h"
#include "topology/mesh.h"

namespace muonshard::testing {
namespace {

// By rank; one copy for each step that the rank has seen to its end.
using Copies = std::vector<std::vector<RankCopy>>;

bool AnyFailed(const ShardedRun& run) {
  return std::any_of(run.results.begin(), run.results.end(),
                     [](const absl::Status& result) { return !result.ok(); });
}

// Puts what was before `step` in front of what came from then on.
void PrependSteps(const ShardedRun& before, int64_t step, ShardedRun& run) {
  for (size_t r = 0; r < run.outcomes.size(); ++r) {
    const auto prepend = [&](const auto& from, auto& to) {
      to.insert(to.begin(), from.begin(), from.begin() + step);
    };
    prepend(before.outcomes[r], run.outcomes[r]);
    prepend(before.step_results[r], run.step_results[r]);
  }
}

}  // namespace

RecoveredRun RunAndRecover(const ShardedCase& sharded,
                           const RuntimeCase& runtime,
                           const Disturbance& disturbance) {
  RecoveredRun recovered;
  Copies copies(static_cast<size_t>(Mesh::Parse(sharded.mesh)->size()));
  const auto keep = [&](Rank rank, int64_t step,
                        const std::vector<ParameterBytes>& parameters,
                        const GradScaler& scaler,
                        ShardedOptimizer& optimizer) -> absl::Status {
    absl::StatusOr<RankCopy> copy =
        CopyOfRank(step, parameters, scaler, optimizer);
    if (!copy.ok()) return copy.status();
    copies[static_cast<size_t>(ToInt(rank))].push_back(*std::move(copy));
    return absl::OkStatus();
  };
  recovered.disturbed = RunSharded(
      sharded, runtime,
      {.plugin_options = absl::StrCat(
           "{\"checks\": 1, \"small_bytes\": ", disturbance.small_bytes,
           ", \"faults\": \"", disturbance.faults, "\"}"),
       .after_step = keep});
  if (!AnyFailed(recovered.disturbed)) {
    recovered.whole = recovered.disturbed;
    return recovered;
  }
  recovered.continued = true;
  size_t whole_steps = copies[0].size();
  for (const auto& of_rank : copies) {
    whole_steps = std::min(whole_steps, of_rank.size());
  }
  recovered.restored_step = static_cast<int64_t>(whole_steps);
  const auto restore = [&](Rank rank, std::vector<ParameterBytes>& parameters,
                           GradScaler& scaler,
                           ShardedOptimizer& optimizer) -> absl::Status {
    if (whole_steps == 0) return absl::OkStatus();
    return RestoreRank(
        copies[static_cast<size_t>(ToInt(rank))][whole_steps - 1], parameters,
        scaler, optimizer);
  };
  recovered.whole = RunSharded(
      sharded, runtime,
      {.before_steps = restore, .first_step = recovered.restored_step + 1});
  if (!AnyFailed(recovered.whole)) {
    PrependSteps(recovered.disturbed, recovered.restored_step, recovered.whole);
  }
  return recovered;
}

}  // namespace muonshard::testing
