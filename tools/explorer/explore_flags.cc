#include "tools/explorer/explore_flags.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/data_type.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "testing/combination/combination.h"
#include "tools/trainer/flags.h"

namespace muonshard {
namespace {

using testing::Combination;
using testing::StepExperimentOptions;

template <typename Value, size_t size>
using Named = std::array<std::pair<const char*, Value>, size>;

constexpr Named<Hierarchy, 3> kHierarchies = {{{"on", Hierarchy::kOn},
                                               {"off", Hierarchy::kOff},
                                               {"auto", Hierarchy::kAuto}}};
constexpr Named<DataType, 3> kPrecisions = {{{"fp32", DataType::kF32},
                                             {"bf16", DataType::kBF16},
                                             {"fp16", DataType::kF16}}};
constexpr Named<GatherMode, 2> kGathers = {
    {{"eager", GatherMode::kEager}, {"lazy", GatherMode::kLazy}}};
constexpr Named<std::optional<AbsentGradient>, 4> kAbsents = {
    {{"none", std::nullopt},
     {"zeros", AbsentGradient::kZeros},
     {"skip", AbsentGradient::kSkip},
     {"error", AbsentGradient::kError}}};

template <typename Value, size_t size>
int32_t IndexOf(const Named<Value, size>& named, const Value& value) {
  const auto found =
      std::find_if(named.begin(), named.end(),
                   [&](const auto& each) { return each.second == value; });
  return static_cast<int32_t>(found - named.begin());
}

// The choices of an experiment as indices, which is what a flag sets.
struct Choices {
  explicit Choices(const Combination& combination)
      : hierarchy(IndexOf(kHierarchies, combination.hierarchy)),
        precision(IndexOf(kPrecisions, combination.precision)),
        gather(IndexOf(kGathers, combination.gather)),
        absent(IndexOf(kAbsents, combination.absent)) {}

  void CopyTo(Combination& combination) const {
    combination.hierarchy = At(kHierarchies, hierarchy);
    combination.precision = At(kPrecisions, precision);
    combination.gather = At(kGathers, gather);
    combination.absent = At(kAbsents, absent);
  }

  template <typename Value, size_t size>
  static Value At(const Named<Value, size>& named, int32_t index) {
    return named[static_cast<size_t>(index)].second;
  }

  int32_t hierarchy;
  int32_t precision;
  int32_t gather;
  int32_t absent;
};

template <typename Value, size_t size>
std::vector<std::string> Names(const Named<Value, size>& named) {
  std::vector<std::string> names;
  for (const auto& each : named) names.emplace_back(each.first);
  return names;
}

void AddExperimentFlags(StepExperimentOptions& options, Choices& choices,
                        FlagTable& table) {
  Combination& combination = options.combination;
  table.AddSwitch("vary",
                  "draw mesh, hosts and features from the seed, in place of "
                  "the flags below",
                  &options.vary);
  table.AddText("mesh", "AXES", "axes of the ranks", &options.mesh);
  table.AddInteger("lanes-per-node", "ranks that share a host", 1, 1 << 20,
                   &options.lanes_per_node);
  table.AddSwitch("overlap", "reduce during backward", &combination.overlap);
  table.AddChoice("hierarchical", "two levels for groups on several hosts",
                  Names(kHierarchies), &choices.hierarchy);
  table.AddSwitch("scaler", "scale the loss, and overflow in the second step",
                  &combination.scaler);
  table.AddInteger("accumulate", "micro-batches in one step", 1, 64,
                   &combination.micro_batches);
  table.AddChoice("precision", "of parameters and gradients",
                  Names(kPrecisions), &choices.precision);
  table.AddChoice("gather", "new parameters: at once, or during the forward",
                  Names(kGathers), &choices.gather);
  table.AddSwitch("release-gradients", "give gradient memory back each step",
                  &combination.release_gradients);
  table.AddChoice("absent", "what it means that a gradient does not come",
                  Names(kAbsents), &choices.absent);
  table.AddText("faults", "PLAN",
                "of the plugin loopback, or \"draw\": one for each seed",
                &options.faults);
}

// What `flag` is set to when the text after it is `value`.
std::string Flag(absl::string_view flag, absl::string_view value) {
  return absl::StrCat("--", flag, "=", value);
}

// As a shell takes it. What is not refused has no quotes.
std::string Quoted(const std::string& text) {
  if (!absl::StrContains(text, ' ')) return text;
  return absl::StrCat("'", text, "'");
}

// Words with blanks between; a quoted part of a word may hold blanks.
std::vector<std::string> Words(absl::string_view text) {
  std::vector<std::string> words;
  bool quoted = false;
  bool inside = false;
  for (const char c : text) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      inside = false;
    } else {
      if (!inside) words.emplace_back();
      inside = true;
      words.back().push_back(c);
    }
  }
  return words;
}

const char* OnOff(bool value) { return value ? "on" : "off"; }

}  // namespace

absl::StatusOr<ExploreFlags> ParseExploreFlags(
    std::span<const absl::string_view> arguments) {
  constexpr int64_t kMany = std::numeric_limits<int32_t>::max();
  ExploreFlags flags;
  flags.search.seed_count = 1000;
  flags.search.processes = static_cast<int32_t>(
      std::clamp<int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1, 64));
  Choices choices(flags.experiment.combination);
  FlagTable table;
  table.AddInteger("seeds", "schedules to try", int64_t{1}, kMany,
                   &flags.search.seed_count);
  table.AddSeed("first-seed", "the first of them", &flags.search.first_seed);
  table.AddInteger("processes", "that run them", 1, 1024,
                   &flags.search.processes);
  table.AddInteger("failures", "runs that go wrong before the search ends",
                   int64_t{1}, kMany, &flags.search.failure_count_max);
  table.AddInteger("shrink-runs", "runs to spend on a shorter trace",
                   int64_t{0}, kMany, &flags.shrink_runs);
  int64_t run_limit_seconds = absl::ToInt64Seconds(flags.search.run_limit);
  table.AddInteger("run-limit-seconds",
                   "of real time, until a run that tells nothing is killed",
                   int64_t{1}, int64_t{86'400}, &run_limit_seconds);
  table.AddText("traces", "FOLDER", "where traces of such runs go",
                &flags.traces_folder);
  table.AddText("replay", "FILE", "run the trace in it, and nothing else",
                &flags.replay_path);
  AddExperimentFlags(flags.experiment, choices, table);
  if (absl::Status s = table.Parse(arguments); !s.ok()) return s;
  if (table.help_wanted()) flags.help = table.Help();
  // "--replay=FILE", or "--replay FILE".
  const auto flag_count = std::count_if(
      arguments.begin(), arguments.end(),
      [](auto argument) { return absl::StartsWith(argument, "--"); });
  const auto allowed = table.given("run-limit-seconds") ? 2 : 1;
  if (table.given("replay") && flag_count > allowed) {
    return absl::InvalidArgumentError(
        "--replay: want no other flag but --run-limit-seconds, since the trace "
        "says what is run");
  }
  flags.search.run_limit = absl::Seconds(run_limit_seconds);
  choices.CopyTo(flags.experiment.combination);
  return flags;
}

std::string ExperimentFlags(const StepExperimentOptions& options) {
  if (options.vary) return Flag("vary", "on");
  const Combination& combination = options.combination;
  const Choices choices(combination);
  const auto name = [](const auto& named, int32_t index) {
    return named[static_cast<size_t>(index)].first;
  };
  return absl::StrCat(
      Flag("mesh", options.mesh), " ",
      Flag("lanes-per-node", absl::StrCat(options.lanes_per_node)), " ",
      Flag("overlap", OnOff(combination.overlap)), " ",
      Flag("hierarchical", name(kHierarchies, choices.hierarchy)), " ",
      Flag("scaler", OnOff(combination.scaler)), " ",
      Flag("accumulate", absl::StrCat(combination.micro_batches)), " ",
      Flag("precision", name(kPrecisions, choices.precision)), " ",
      Flag("gather", name(kGathers, choices.gather)), " ",
      Flag("release-gradients", OnOff(combination.release_gradients)), " ",
      Flag("absent", name(kAbsents, choices.absent)),
      options.faults.empty()
          ? ""
          : absl::StrCat(" ", Flag("faults", Quoted(options.faults))));
}

absl::StatusOr<StepExperimentOptions> ParseExperimentFlags(
    absl::string_view text) {
  StepExperimentOptions options;
  Choices choices(options.combination);
  FlagTable table;
  AddExperimentFlags(options, choices, table);
  const std::vector<std::string> words = Words(text);
  const std::vector<absl::string_view> arguments(words.begin(), words.end());
  if (absl::Status s = table.Parse(arguments); !s.ok()) return s;
  choices.CopyTo(options.combination);
  return options;
}

}  // namespace muonshard
