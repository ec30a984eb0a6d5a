// The flags of `explore`, and those of them that say what is run, which a trace
// file keeps.

#ifndef TOOLS_EXPLORER_EXPLORE_FLAGS_H_
#define TOOLS_EXPLORER_EXPLORE_FLAGS_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "testing/exploration/explorer.h"
#include "testing/exploration/step_experiment.h"

namespace muonshard {

struct ExploreFlags {
  testing::StepExperimentOptions experiment;
  testing::ExploreOptions search;
  // Runs to spend on making a failing trace shorter; 0: it stays as it is.
  int64_t shrink_runs = 300;
  // Where the traces of failing runs go.
  std::string traces_folder = ".";
  // Replayed instead of a search, within search.run_limit; empty: none.
  std::string replay_path;
  // Not empty: --help was asked for, and this is the answer.
  std::string help;
};

absl::StatusOr<ExploreFlags> ParseExploreFlags(
    std::span<const absl::string_view> arguments);

// "--mesh=data=4,tp=2 --lanes-per-node=4 ...", and back.
std::string ExperimentFlags(const testing::StepExperimentOptions& options);
absl::StatusOr<testing::StepExperimentOptions> ParseExperimentFlags(
    absl::string_view text);

}  // namespace muonshard

#endif  // TOOLS_EXPLORER_EXPLORE_FLAGS_H_
