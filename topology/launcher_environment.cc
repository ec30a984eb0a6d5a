#include "topology/launcher_environment.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

constexpr int32_t kNoLimit = std::numeric_limits<int32_t>::max();

// The variables of one launcher; nullptr for those that it does not have.
struct VariableSet {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size = nullptr;
  const char* master_address = nullptr;
  const char* master_port = nullptr;
  const char* restart_count = nullptr;
  const char* node_list = nullptr;
  bool is_ours = false;
};

constexpr VariableSet kSets[] = {
    {.launcher = "muonshard",
     .rank = "MUONSHARD_RANK",
     .size = "MUONSHARD_SIZE",
     .local_rank = "MUONSHARD_LOCAL_RANK",
     .local_size = "MUONSHARD_LOCAL_SIZE",
     .is_ours = true},
    {.launcher = "torchrun",
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .local_rank = "LOCAL_RANK",
     .local_size = "LOCAL_WORLD_SIZE",
     .master_address = "MASTER_ADDR",
     .master_port = "MASTER_PORT",
     .restart_count = "TORCHELASTIC_RESTART_COUNT"},
    {.launcher = "Open MPI",
     .rank = "OMPI_COMM_WORLD_RANK",
     .size = "OMPI_COMM_WORLD_SIZE",
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {.launcher = "MPICH",
     .rank = "PMI_RANK",
     .size = "PMI_SIZE",
     .local_rank = "MPI_LOCALRANKID",
     .local_size = "MPI_LOCALNRANKS"},
    {.launcher = "Slurm",
     .rank = "SLURM_PROCID",
     .size = "SLURM_NTASKS",
     .local_rank = "SLURM_LOCALID",
     .node_list = "SLURM_STEP_NODELIST"},
};

std::optional<std::string> Text(const EnvironmentLookup& lookup,
                                const char* name) {
  if (name == nullptr) return std::nullopt;
  std::optional<std::string> text = lookup(name);
  if (text.has_value() && text->empty()) return std::nullopt;
  return text;
}

// The number in variable `name`, in [low, high]; nullopt where it is absent.
absl::StatusOr<std::optional<int32_t>> Number(const EnvironmentLookup& lookup,
                                              const char* name, int32_t low,
                                              int32_t high) {
  const std::optional<std::string> text = Text(lookup, name);
  if (!text.has_value()) return std::nullopt;
  int32_t number = 0;
  if (!absl::SimpleAtoi(*text, &number) || number < low || number > high) {
    const std::string range = high == kNoLimit
                                  ? absl::StrCat("of at least ", low)
                                  : absl::StrCat("from ", low, " to ", high);
    return absl::InvalidArgumentError(absl::StrCat(
        "variable ", name, ": want a number ", range, ", got \"", *text, "\""));
  }
  return number;
}

absl::Status ReadLocal(const EnvironmentLookup& lookup, const VariableSet& set,
                       LauncherEnvironment& environment) {
  const auto local_size = Number(lookup, set.local_size, 1, environment.size);
  if (!local_size.ok()) return local_size.status();
  environment.local_size = *local_size;
  const auto local_rank =
      Number(lookup, set.local_rank, 0,
             environment.local_size.value_or(environment.size) - 1);
  if (!local_rank.ok()) return local_rank.status();
  if (local_rank->has_value()) environment.local_rank = Rank(**local_rank);
  return absl::OkStatus();
}

absl::Status ReadMeetingPoint(const EnvironmentLookup& lookup,
                              const VariableSet& set,
                              LauncherEnvironment& environment) {
  environment.master_address = Text(lookup, set.master_address);
  const auto port = Number(lookup, set.master_port, 1, 65535);
  if (!port.ok()) return port.status();
  environment.master_port = *port;
  const auto restart_count = Number(lookup, set.restart_count, 0, kNoLimit);
  if (!restart_count.ok()) return restart_count.status();
  environment.restart_count = *restart_count;
  environment.node_list = Text(lookup, set.node_list);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LauncherEnvironment>> ReadSet(
    const EnvironmentLookup& lookup, const VariableSet& set) {
  const bool has_rank = Text(lookup, set.rank).has_value();
  const bool has_size = Text(lookup, set.size).has_value();
  if (!has_rank || !has_size) {
    if (set.is_ours && (has_rank || has_size)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable ", has_rank ? set.rank : set.size, " is set and ",
          has_rank ? set.size : set.rank, " is not; want both or neither"));
    }
    return std::nullopt;
  }
  LauncherEnvironment environment;
  environment.launcher = set.launcher;
  const auto size = Number(lookup, set.size, 1, kNoLimit);
  if (!size.ok()) return size.status();
  environment.size = **size;
  const auto rank = Number(lookup, set.rank, 0, environment.size - 1);
  if (!rank.ok()) return rank.status();
  environment.rank = Rank(**rank);
  if (absl::Status s = ReadLocal(lookup, set, environment); !s.ok()) return s;
  if (absl::Status s = ReadMeetingPoint(lookup, set, environment); !s.ok()) {
    return s;
  }
  return environment;
}

std::string Describe(const LauncherEnvironment& environment) {
  return absl::StrCat(environment.launcher, " says rank ",
                      ToInt(environment.rank), " of ", environment.size);
}

}  // namespace

absl::StatusOr<std::optional<LauncherEnvironment>> ReadLauncherEnvironment(
    const EnvironmentLookup& lookup) {
  std::optional<LauncherEnvironment> first;
  for (const VariableSet& set : kSets) {
    auto environment = ReadSet(lookup, set);
    if (!environment.ok()) return environment.status();
    if (!environment->has_value()) continue;
    if (!first.has_value()) {
      first = *std::move(environment);
    } else if ((*environment)->rank != first->rank ||
               (*environment)->size != first->size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the launchers' variables disagree: ", Describe(*first), ", ",
          Describe(**environment), "; unset those of one of them"));
    }
  }
  return first;
}

}  // namespace muonshard
