// One run of an experiment and what it takes to repeat it, as a value, as a
// line of text, and as a file.

#ifndef TESTING_EXPLORATION_RECORDED_RUN_H_
#define TESTING_EXPLORATION_RECORDED_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/runtime/sim_trace.h"

namespace muonshard::testing {

struct RecordedRun {
  uint64_t seed = 0;
  absl::Status result;
  uint64_t trace_hash = 0;
  uint64_t choice_count = 0;
  // About how many choices a run of this seed makes, from which the seed's
  // scheduler and the limit on its choices were made.
  uint64_t length = 0;
  // None of a run that held: its choices are those of the seed's scheduler.
  std::optional<SimTrace> trace;
};

// "12:3": at choice 12 task 3.
std::string ToWord(const SimDeviation& deviation);
// kInvalidArgument: a word is none, or the choices do not ascend.
absl::StatusOr<SimTrace> TraceFromWords(const std::vector<std::string>& words);

// Without line breaks; how a child process tells of a run.
std::string ToLine(const RecordedRun& run);
absl::StatusOr<RecordedRun> RunFromLine(absl::string_view line);

// A run with the flags of its experiment, as `--replay` reads it.
struct TraceFile {
  std::string flags;
  RecordedRun run;
};
std::string ToText(const TraceFile& file);
// kInvalidArgument says which line is wrong: a file of another version, one
// that is cut short, one that is no trace.
absl::StatusOr<TraceFile> TraceFileFromText(absl::string_view text);

}  // namespace muonshard::testing

#endif  // TESTING_EXPLORATION_RECORDED_RUN_H_
