// What the program that started this process says about its place in the job.
//
// In this file
//   set   the variables of one launcher:
//           muonshard  MUONSHARD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE}
//           torchrun   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
//                      MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT
//           Open MPI   OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE}
//           MPICH      PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS
//           Slurm      SLURM_PROCID SLURM_NTASKS SLURM_LOCALID
//                      SLURM_STEP_NODELIST
//         It is complete if its rank and its size are there. An empty variable
//         counts as absent.
//
// Ordering     Sets are read in the order above and the first complete one
//              wins. An incomplete set is passed over, except our own: nobody
//              but a user of this library sets half of it.
// Errors       kInvalidArgument names the variable of a complete set that does
//              not hold a number in its range, or the two complete sets that
//              disagree on rank or size, with what each says.

#ifndef TOPOLOGY_LAUNCHER_ENVIRONMENT_H_
#define TOPOLOGY_LAUNCHER_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "topology/rank.h"

namespace muonshard {

struct LauncherEnvironment {
  // As in the list above, for reports.
  std::string launcher;
  Rank rank{0};
  // The number of ranks of the job.
  int32_t size = 1;
  // Rank among, and number of, the ranks of the job on this host.
  std::optional<Rank> local_rank;
  std::optional<int32_t> local_size;
  // Where torchrun's ranks meet, and how often it has started them anew.
  std::optional<std::string> master_address;
  std::optional<int32_t> master_port;
  std::optional<int32_t> restart_count;
  // Slurm's own notation, for example "node[1-4]".
  std::optional<std::string> node_list;
};

// The value of a variable, or nullopt where it is not set.
using EnvironmentLookup =
    std::function<std::optional<std::string>(const char* name)>;

// nullopt if there is no complete set.
absl::StatusOr<std::optional<LauncherEnvironment>> ReadLauncherEnvironment(
    const EnvironmentLookup& lookup);

}  // namespace muonshard

#endif  // TOPOLOGY_LAUNCHER_ENVIRONMENT_H_
