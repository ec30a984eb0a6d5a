#include "collectives/job_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muonshard {
namespace {

std::string Text(const EnvironmentLookup& lookup, const char* name) {
  return lookup(name).value_or("");
}

// Two names between which a launcher may choose.
std::string Text(const EnvironmentLookup& lookup, const char* first,
                 const char* second) {
  std::string text = Text(lookup, first);
  return text.empty() ? Text(lookup, second) : text;
}

// `parts` with hyphens between; empty if one of them is.
std::string Joined(std::initializer_list<std::string> parts) {
  std::string name;
  for (const std::string& part : parts) {
    if (part.empty()) return "";
    absl::StrAppend(&name, name.empty() ? "" : "-", part);
  }
  return name;
}

// Empty if the launcher gives the job no name.
std::string JobName(const LauncherEnvironment& environment,
                    const EnvironmentLookup& lookup, const ProcessIds& ids) {
  const std::string& launcher = environment.launcher;
  if (launcher == "Open MPI") {
    return Joined(
        {"openmpi", Text(lookup, "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")});
  }
  if (launcher == "MPICH") {
    const std::string id = Text(lookup, "PMI_JOBID");
    return Joined({"mpich", id.empty() ? absl::StrCat("of", ids.parent) : id});
  }
  if (launcher == "Slurm") {
    return Joined(
        {"slurm", Text(lookup, "SLURM_JOB_ID"), Text(lookup, "SLURM_STEP_ID")});
  }
  if (launcher == "torchrun") {
    return Joined({"torchrun", Text(lookup, "TORCHELASTIC_RUN_ID"),
                   environment.master_port.has_value()
                       ? absl::StrCat(*environment.master_port)
                       : "",
                   absl::StrCat(environment.restart_count.value_or(0))});
  }
  return "";
}

bool IsOnOneHost(const LauncherEnvironment& environment) {
  if (environment.size == 1) return true;
  if (environment.local_size.has_value()) {
    return *environment.local_size == environment.size;
  }
  // Slurm lists several nodes with commas or brackets.
  return environment.node_list.has_value() &&
         environment.node_list->find_first_of(",[") == std::string::npos;
}

std::string AsFileName(std::string name) {
  for (char& c : name) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                       c == '-' || c == '.' || c == '_';
    if (!plain) c = '_';
  }
  return name;
}

absl::Status NoStore(const LauncherEnvironment& environment,
                     absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      environment.launcher, " started rank ", ToInt(environment.rank), " of ",
      environment.size, ", ", why,
      "; give all ranks MUONSHARD_STORE=tcp:HOST:PORT, of a store that is "
      "served there, and its MUONSHARD_STORE_SECRET"));
}

absl::Status FindNamedStore(const std::string& address,
                            const EnvironmentLookup& lookup, JobPlace& place) {
  const absl::StatusOr<StoreAddress> store = ParseStoreAddress(address);
  if (!store.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable MUONSHARD_STORE: ", store.status().message()));
  }
  place.store = *store;
  place.secret = Text(lookup, "MUONSHARD_STORE_SECRET");
  if (!place.store.host.empty() && place.secret.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable MUONSHARD_STORE_SECRET: want the secret of the store ",
        address, ", got none"));
  }
  return absl::OkStatus();
}

absl::Status FindFolder(const LauncherEnvironment& environment,
                        const EnvironmentLookup& lookup, const ProcessIds& ids,
                        JobPlace& place) {
  if (!IsOnOneHost(environment)) {
    return NoStore(environment, "which may be on another host than the others");
  }
  const std::string name = JobName(environment, lookup, ids);
  if (name.empty()) return NoStore(environment, "in a job without a name");
  std::string folder = Text(lookup, "TMPDIR");
  if (folder.empty()) folder = "/tmp";
  place.store.folder =
      absl::StrCat(folder, "/muonshard-", ids.user, "-", AsFileName(name));
  place.owns_folder = true;
  return absl::OkStatus();
}

// Others could plant addresses in a folder that they can write to.
absl::Status MakeOwnFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), S_IRWXU) == 0) return absl::OkStatus();
  if (errno != EEXIST) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot make the job's folder \"", folder, "\""));
  }
  struct stat found = {};
  if (lstat(folder.c_str(), &found) != 0) {
    return absl::ErrnoToStatus(
        errno,
        absl::StrCat("cannot look at the job's folder \"", folder, "\""));
  }
  if (S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
      (found.st_mode & (S_IRWXG | S_IRWXO)) == 0) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "the job's folder \"", folder, "\": want a folder of user ", geteuid(),
      " that is closed to others, got another; remove it, or give "
      "another TMPDIR"));
}

}  // namespace

ProcessIds IdsOfThisProcess() {
  return {static_cast<int64_t>(geteuid()), static_cast<int64_t>(getppid())};
}

std::optional<std::string> ProcessVariable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

absl::StatusOr<std::optional<JobPlace>> FindJobPlace(
    const EnvironmentLookup& lookup, const ProcessIds& ids) {
  const auto environment = ReadLauncherEnvironment(lookup);
  if (!environment.ok()) return environment.status();
  if (!environment->has_value()) return std::nullopt;
  JobPlace place;
  place.launcher = (*environment)->launcher;
  place.rank = (*environment)->rank;
  place.size = (*environment)->size;
  place.local_rank = (*environment)
                         ->local_rank.value_or(
                             IsOnOneHost(**environment) ? place.rank : Rank{0});
  const std::string address = Text(lookup, "MUONSHARD_STORE");
  const absl::Status status =
      address.empty() ? FindFolder(**environment, lookup, ids, place)
                      : FindNamedStore(address, lookup, place);
  if (!status.ok()) return status;
  return place;
}

absl::StatusOr<std::unique_ptr<Store>> OpenJobStore(Runtime& runtime,
                                                    const JobPlace& place,
                                                    absl::Time deadline) {
  if (place.owns_folder) {
    if (absl::Status s = MakeOwnFolder(place.store.folder); !s.ok()) return s;
  }
  return OpenStore(runtime, place.store, place.secret, deadline);
}

void RemoveJobFolder(const JobPlace& place) {
  if (!place.owns_folder) return;
  // What is left after an error costs space and nothing else.
  std::error_code ignored;
  std::filesystem::remove_all(place.store.folder, ignored);
}

}  // namespace muonshard
