// Where this process stands in its job, and where the job's processes meet.
//
// In this file
//   store     MUONSHARD_STORE, as open_store.h writes it, with the secret in
//             MUONSHARD_STORE_SECRET. Without it, where all ranks are on one
//             host: a folder in $TMPDIR, else /tmp, named after the user and
//             the job, which every rank finds by itself.
//   job       what the launcher calls it:
//               Open MPI  PMIX_NAMESPACE, else OMPI_MCA_ess_base_jobid
//               MPICH     PMI_JOBID, else the id of the parent process
//               Slurm     SLURM_JOB_ID and SLURM_STEP_ID
//               torchrun  TORCHELASTIC_RUN_ID, MASTER_PORT and the count of
//                         restarts
//
// Errors       kInvalidArgument, as ReadLauncherEnvironment and
//              ParseStoreAddress; a store over TCP without a secret; ranks on
//              several hosts, or a job without a name, without
//              MUONSHARD_STORE.
//              kPermissionDenied: the job's folder exists and is another
//              user's, or open to others.

#ifndef COLLECTIVES_JOB_PLACE_H_
#define COLLECTIVES_JOB_PLACE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/open_store.h"
#include "collectives/runtime/runtime.h"
#include "collectives/store.h"
#include "topology/launcher_environment.h"
#include "topology/rank.h"

namespace muonshard {

struct JobPlace {
  std::string launcher;  // As in LauncherEnvironment.
  Rank rank{0};
  int32_t size = 1;
  Rank local_rank{0};  // Among the ranks on this host.
  StoreAddress store;
  std::string secret;
  // The store is a folder that this job alone uses.
  bool owns_folder = false;
};

// What else tells jobs apart.
struct ProcessIds {
  int64_t user = 0;
  int64_t parent = 0;
};

ProcessIds IdsOfThisProcess();

// Looks into the environment of this process.
std::optional<std::string> ProcessVariable(const char* name);

// nullopt if no launcher started this process.
absl::StatusOr<std::optional<JobPlace>> FindJobPlace(
    const EnvironmentLookup& lookup, const ProcessIds& ids);

// Makes the folder of a job that owns it.
absl::StatusOr<std::unique_ptr<Store>> OpenJobStore(Runtime& runtime,
                                                    const JobPlace& place,
                                                    absl::Time deadline);

// Removes the folder of a job that owns it, once no rank uses it any more.
void RemoveJobFolder(const JobPlace& place);

}  // namespace muonshard

#endif  // COLLECTIVES_JOB_PLACE_H_
