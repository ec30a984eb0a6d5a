#include "tools/launcher/rank_environment.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

constexpr absl::string_view kNames[] = {
    "MUONSHARD_RANK",
    "MUONSHARD_SIZE",
    "MUONSHARD_LOCAL_RANK",
    "MUONSHARD_LOCAL_SIZE",
    "MUONSHARD_STORE",
    "MUONSHARD_STORE_SECRET",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_ID",
    "OMPI_MCA_ess_base_jobid",
};

constexpr absl::string_view kPrefixes[] = {"OMPI_COMM_WORLD_", "PMIX_", "PMI_",
                                           "TORCHELASTIC_"};

}  // namespace

bool IsLauncherVariable(absl::string_view name) {
  return std::find(std::begin(kNames), std::end(kNames), name) !=
             std::end(kNames) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [name](absl::string_view prefix) {
                       return absl::StartsWith(name, prefix);
                     });
}

std::vector<std::string> RankEnvironment(std::span<const std::string> inherited,
                                         const RankPlace& place) {
  std::vector<std::string> variables;
  for (const std::string& variable : inherited) {
    const absl::string_view name =
        absl::string_view(variable).substr(0, variable.find('='));
    if (!IsLauncherVariable(name)) variables.push_back(variable);
  }
  variables.push_back(absl::StrCat("MUONSHARD_RANK=", place.rank));
  variables.push_back(absl::StrCat("MUONSHARD_SIZE=", place.size));
  variables.push_back(absl::StrCat("MUONSHARD_LOCAL_RANK=", place.rank));
  variables.push_back(absl::StrCat("MUONSHARD_LOCAL_SIZE=", place.size));
  variables.push_back(absl::StrCat("MUONSHARD_STORE=", place.store));
  if (!place.secret.empty()) {
    variables.push_back(absl::StrCat("MUONSHARD_STORE_SECRET=", place.secret));
  }
  return variables;
}

}  // namespace muonshard
