#include "tools/explorer/explore_command.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "testing/exploration/experiment.h"
#include "testing/exploration/explorer.h"
#include "testing/exploration/recorded_run.h"
#include "testing/exploration/seeded_schedule.h"
#include "testing/exploration/step_experiment.h"
#include "tools/explorer/explore_flags.h"
#include "tools/trainer/input_file.h"
#include "tools/trainer/output_files.h"

namespace muonshard {
namespace {

using testing::Experiment;
using testing::ExploreSummary;
using testing::RecordedRun;
using testing::TraceFile;

constexpr int kHeld = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kAnotherRun = 3;

int Refuse(const absl::Status& status, std::ostream& errors) {
  errors << "explore: " << status.message() << "\n";
  return kUsage;
}

std::string TraceText(const RecordedRun& run) {
  if (!run.trace.has_value()) return "the schedule of its seed";
  return absl::StrCat(run.trace->size(), " deviations in ", run.choice_count,
                      " choices");
}

// Writes the trace of a failing run, and again when it has been shortened, and
// says how to run it.
absl::Status KeepTrace(const Experiment& experiment, const ExploreFlags& flags,
                       const RecordedRun& failed, std::ostream& out) {
  const std::string path = absl::StrCat(
      flags.traces_folder, "/muonshard-trace-", failed.seed, ".txt");
  const auto write = [&](const RecordedRun& run) {
    return WriteFile(
        "--traces", path,
        testing::ToText(
            {.flags = ExperimentFlags(flags.experiment), .run = run}));
  };
  out << "seed " << failed.seed << " ("
      << testing::ScheduleKindName(failed.seed) << ") failed: " << failed.result
      << "\n"
      << "  trace: " << TraceText(failed) << "\n"
      << "  again: muonshard explore --replay " << path << std::endl;
  absl::Status written = write(failed);
  if (!written.ok() || flags.shrink_runs == 0) return written;
  const RecordedRun shortest = testing::Shrink(
      experiment, failed, flags.shrink_runs, flags.search.run_limit);
  out << "  shrunk: " << TraceText(shortest) << ": " << shortest.result
      << std::endl;
  return write(shortest);
}

int Search(const ExperimentFactory& new_experiment, const ExploreFlags& flags,
           std::ostream& out, std::ostream& errors) {
  absl::StatusOr<std::unique_ptr<Experiment>> experiment =
      new_experiment(flags.experiment);
  if (!experiment.ok()) return Refuse(experiment.status(), errors);
  // A failure that took hours to find must not be lost for want of a folder.
  if (access(flags.traces_folder.c_str(), W_OK | X_OK) != 0) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(
                      "--traces: want a folder to write to, got ",
                      flags.traces_folder, ": ", std::strerror(errno))),
                  errors);
  }
  out << "explore: " << ExperimentFlags(flags.experiment) << "\n";
  absl::StatusOr<ExploreSummary> summary =
      testing::Explore(**experiment, flags.search);
  if (!summary.ok()) return Refuse(summary.status(), errors);
  for (const RecordedRun& failed : summary->failures) {
    const absl::Status kept = KeepTrace(**experiment, flags, failed, out);
    if (!kept.ok()) errors << "explore: " << kept.message() << "\n";
  }
  const int64_t failure_count = summary->failure_count;
  out << summary->run_count << " runs of " << summary->distinct_count
      << " schedules, " << summary->choice_count_min << " to "
      << summary->choice_count_max
      << " choices each: " << summary->run_count - failure_count << " held, "
      << failure_count << " failed\n"
      << "hash of all traces: "
      << absl::StrCat(absl::Hex(summary->hash, absl::kZeroPad16)) << "\n";
  return failure_count == 0 ? kHeld : kFailed;
}

// Where a run was killed, the text names the limit, which may be another one.
bool SameResult(const absl::Status& a, const absl::Status& b) {
  return a == b || (absl::IsDeadlineExceeded(a) && absl::IsDeadlineExceeded(b));
}

int RunTrace(const ExperimentFactory& new_experiment, const ExploreFlags& flags,
             std::ostream& out, std::ostream& errors) {
  const std::string& path = flags.replay_path;
  absl::StatusOr<std::string> text = ReadFile("--replay", path);
  if (!text.ok()) return Refuse(text.status(), errors);
  absl::StatusOr<TraceFile> file = testing::TraceFileFromText(*text);
  if (!file.ok()) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(
                      "--replay: ", path, ": ", file.status().message())),
                  errors);
  }
  absl::StatusOr<testing::StepExperimentOptions> options =
      ParseExperimentFlags(file->flags);
  if (!options.ok()) return Refuse(options.status(), errors);
  absl::StatusOr<std::unique_ptr<Experiment>> experiment =
      new_experiment(*options);
  if (!experiment.ok()) return Refuse(experiment.status(), errors);
  out << "explore: " << file->flags << "\n";
  const RecordedRun run =
      testing::Replay(**experiment, file->run, flags.search.run_limit);
  out << "seed " << run.seed << ", " << TraceText(file->run) << ": "
      << run.result << "\n";
  const bool same = run.trace_hash == file->run.trace_hash &&
                    SameResult(run.result, file->run.result);
  out << (same ? "the same run as recorded, choice for choice\n"
               : "another run than recorded: has the program changed since?\n");
  if (!same) return kAnotherRun;
  return run.result.ok() ? kHeld : kFailed;
}

}  // namespace

int ExploreMain(std::span<const absl::string_view> arguments, std::ostream& out,
                std::ostream& errors) {
  return ExploreWith(&testing::NewStepExperiment, arguments, out, errors);
}

int ExploreWith(const ExperimentFactory& new_experiment,
                std::span<const absl::string_view> arguments, std::ostream& out,
                std::ostream& errors) {
  absl::StatusOr<ExploreFlags> flags = ParseExploreFlags(arguments);
  if (!flags.ok()) return Refuse(flags.status(), errors);
  if (!flags->help.empty()) {
    out << "Runs training steps on the simulated runtime under many schedules, "
           "and holds\neach run against an unsharded one, bit for bit.\n\n"
           "Flags [default]:\n"
        << flags->help;
    return kHeld;
  }
  if (!flags->replay_path.empty()) {
    return RunTrace(new_experiment, *flags, out, errors);
  }
  return Search(new_experiment, *flags, out, errors);
}

}  // namespace muonshard
