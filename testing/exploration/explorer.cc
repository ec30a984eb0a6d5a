#include "testing/exploration/explorer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "collectives/runtime/sim_trace.h"
#include "testing/exploration/child_process.h"
#include "testing/exploration/seeded_schedule.h"

namespace muonshard::testing {
namespace {

// Of the run under the default schedule; a run of another one that makes more
// choices than this many times as many goes round in circles.
constexpr uint64_t kLengthFactor = 50;
// Below which a short program's length says little.
constexpr uint64_t kLengthMin = 10'000;
// Of a run whose length is to be learnt: hundreds of ranks, not one that goes
// round in circles for long.
constexpr uint64_t kUnknownLengthMax = 50'000'000;
// Runs of a shrinking that may end by the limit on a run, each of which takes
// as long: they leave out all but a 256th of a trace if each fails again.
constexpr int64_t kKilledRunsMax = 8;
// Runs of one process between two looks at what all have found.
constexpr uint64_t kRoundSeeds = 64;

// `length`: about how many choices a run makes; 0: nobody knows.
RecordedRun RunOnce(const Experiment& experiment, uint64_t seed,
                    SimScheduler& scheduler, uint64_t length) {
  SimTraceRecorder recorder(scheduler);
  ExploredRun run = experiment.Run(
      {.scheduler = recorder,
       .choice_count_max = length == 0
                               ? kUnknownLengthMax
                               : kLengthFactor * std::max(length, kLengthMin)},
      seed);
  RecordedRun recorded = {.seed = seed,
                          .result = std::move(run.result),
                          .trace_hash = run.trace_hash,
                          .choice_count = recorder.choice_count(),
                          .length = length};
  if (!recorded.result.ok()) recorded.trace = recorder.trace();
  return recorded;
}

// Runs once under a scheduler, with a length.
using RunOne = std::function<RecordedRun(SimScheduler&, uint64_t)>;

// The seed's own run. `length` is that of seed 0.
RecordedRun RunSeed(const Experiment& experiment, uint64_t seed,
                    uint64_t length, const RunOne& run_one) {
  if (experiment.varies() && DependsOnLength(seed)) {
    SimTraceReplay plain{SimTrace()};
    RecordedRun standard = run_one(plain, length);
    if (!standard.result.ok()) return standard;
    length = standard.choice_count;
  }
  const std::unique_ptr<SimScheduler> scheduler =
      NewSeededScheduler(seed, length);
  return run_one(*scheduler, length);
}

RecordedRun Told(const std::string& line) {
  absl::StatusOr<RecordedRun> run = RunFromLine(line);
  if (run.ok()) return *std::move(run);
  RecordedRun unread;
  unread.result = run.status();
  return unread;
}

// Tells of each deviation at once, so that those of a run that crashes are
// known.
class TellingScheduler final : public SimScheduler {
 public:
  TellingScheduler(SimScheduler& inner, const Tell& tell)
      : recorder_(inner), tell_(tell) {}

  size_t Choose(const SimChoice& choice) override {
    const size_t chosen = recorder_.Choose(choice);
    if (recorder_.trace().size() > told_count_) {
      tell_(absl::StrCat(kDeviation, ToWord(recorder_.trace().back())));
      ++told_count_;
    }
    return chosen;
  }

  static constexpr char kDeviation[] = "+";

 private:
  SimTraceRecorder recorder_;
  const Tell& tell_;
  size_t told_count_ = 0;
};

std::unique_ptr<SimScheduler> SchedulerOf(const RecordedRun& run) {
  if (run.trace.has_value()) {
    return std::make_unique<SimTraceReplay>(*run.trace);
  }
  return NewSeededScheduler(run.seed, run.length);
}

// What `run` returns, called in a child with a function that tells of each run
// as it goes on; or else all that it told of the last run. `end` is how the
// child ended.
RecordedRun RunInOneChild(const Experiment& experiment, uint64_t seed,
                          absl::Duration run_limit,
                          const std::function<RecordedRun(const RunOne&)>& run,
                          absl::Status& end) {
  static constexpr char kLength[] = "=";
  RecordedRun got = {.seed = seed};
  std::vector<std::string> deviations;
  const std::vector<absl::Status> ends = RunInChildren(
      1,
      [&](size_t, const Tell& tell) {
        const auto run_one = [&](SimScheduler& scheduler, uint64_t length) {
          tell(absl::StrCat(kLength, length));
          TellingScheduler telling(scheduler, tell);
          return RunOnce(experiment, seed, telling, length);
        };
        tell(ToLine(run(run_one)));
      },
      [&](size_t, const std::string& line) {
        absl::string_view word = line;
        if (absl::ConsumePrefix(&word, TellingScheduler::kDeviation)) {
          deviations.emplace_back(word);
        } else if (absl::ConsumePrefix(&word, kLength)) {
          deviations.clear();
          (void)absl::SimpleAtoi(word, &got.length);
        } else {
          got = Told(line);
        }
      },
      run_limit);
  end = ends[0];
  if (end.ok()) return got;
  absl::StatusOr<SimTrace> trace = TraceFromWords(deviations);
  got.result = end;
  if (trace.ok()) got.trace = *std::move(trace);
  return got;
}

RecordedRun ReplayInChild(const Experiment& experiment, const RecordedRun& run,
                          absl::Duration run_limit, absl::Status& end) {
  return RunInOneChild(
      experiment, run.seed, run_limit,
      [&](const RunOne& run_one) {
        return run_one(*SchedulerOf(run), run.length);
      },
      end);
}

// One child's share of a round: every `stride`-th seed from `next` on, counted
// from the first seed of the search.
struct Share {
  uint64_t next;
  uint64_t end;
  std::optional<uint64_t> begun;  // A seed that was not told of since.
};

class Search {
 public:
  Search(const Experiment& experiment, const ExploreOptions& options)
      : experiment_(experiment), options_(options) {}

  absl::StatusOr<ExploreSummary> Run() {
    const RecordedRun standard = Replay(
        experiment_, {.seed = 0, .trace = SimTrace()}, options_.run_limit);
    if (!standard.result.ok()) {
      Add(standard);
      return Finish();
    }
    length_ = standard.choice_count;
    const auto end = static_cast<uint64_t>(options_.seed_count);
    const uint64_t round =
        kRoundSeeds * static_cast<uint64_t>(options_.processes);
    for (uint64_t begin = 0; begin < end && status_.ok() && !Enough();
         begin += round) {
      RunRound(begin, std::min(begin + round, end));
    }
    if (!status_.ok()) return status_;
    return Finish();
  }

 private:
  bool Enough() const {
    return summary_.failure_count >= options_.failure_count_max;
  }

  // Children take turns with the seeds, so that each has a share of slow ones.
  // After a failure the next seed has a fresh child: what a run leaves behind
  // when it crashes or is dropped is not the next one's.
  void RunRound(uint64_t begin, uint64_t end) {
    const auto stride = static_cast<uint64_t>(options_.processes);
    std::vector<Share> shares;
    for (uint64_t first = begin; first < std::min(begin + stride, end);
         ++first) {
      shares.push_back({.next = first, .end = end, .begun = std::nullopt});
    }
    while (!shares.empty()) {
      const std::vector<absl::Status> ends = RunInChildren(
          shares.size(),
          [&](size_t i, const Tell& tell) {
            RunShare(shares[i], stride, tell);
          },
          [&](size_t i, const std::string& line) {
            if (line == kBegun) {
              shares[i].begun = shares[i].next;
              shares[i].next += stride;
              return;
            }
            shares[i].begun.reset();
            Add(Told(line));
          },
          options_.run_limit);
      std::vector<Share> left;
      for (size_t i = 0; i < shares.size(); ++i) {
        Share& share = shares[i];
        if (!ends[i].ok()) AddCrash(share, stride, ends[i]);
        if (!status_.ok()) return;
        if (share.next < share.end && !Enough()) left.push_back(share);
      }
      shares = std::move(left);
    }
  }

  // In the child. Ends behind the first failure.
  void RunShare(const Share& share, uint64_t stride, const Tell& tell) const {
    for (uint64_t next = share.next; next < share.end; next += stride) {
      tell(kBegun);
      const uint64_t seed = options_.first_seed + next;
      const RecordedRun run =
          RunSeed(experiment_, seed, length_,
                  [&](SimScheduler& scheduler, uint64_t length) {
                    return RunOnce(experiment_, seed, scheduler, length);
                  });
      tell(ToLine(run));
      if (!run.result.ok()) return;
    }
  }

  // A child ended, or was killed, without telling of the seed that it had
  // begun.
  void AddCrash(Share& share, uint64_t stride, const absl::Status& end) {
    if (absl::IsUnavailable(end)) {
      status_ = end;
      return;
    }
    if (!share.begun.has_value()) {
      share.begun = share.next;
      share.next += stride;
    }
    const uint64_t seed = options_.first_seed + *share.begun;
    absl::Status end_alone;
    RecordedRun run = RunInOneChild(
        experiment_, seed, options_.run_limit,
        [&](const RunOne& run_one) {
          return RunSeed(experiment_, seed, length_, run_one);
        },
        end_alone);
    if (run.result.ok()) {
      run.result = absl::Status(
          end.code(), absl::StrCat(end.message(),
                                   "; with this seed, or by what an earlier "
                                   "one had left: alone it ran to its end"));
    }
    share.begun.reset();
    Add(std::move(run));
  }

  void Add(RecordedRun run) {
    ++summary_.run_count;
    summary_.choice_count_min =
        std::min(summary_.choice_count_min, run.choice_count);
    summary_.choice_count_max =
        std::max(summary_.choice_count_max, run.choice_count);
    // A sum, because runs come in any order.
    summary_.hash += MixBits(run.trace_hash + run.seed);
    hashes_.insert(run.trace_hash);
    if (run.result.ok()) return;
    ++summary_.failure_count;
    summary_.failures.push_back(std::move(run));
  }

  ExploreSummary Finish() {
    summary_.distinct_count = static_cast<int64_t>(hashes_.size());
    std::sort(summary_.failures.begin(), summary_.failures.end(),
              [](const RecordedRun& a, const RecordedRun& b) {
                return a.seed < b.seed;
              });
    const auto kept = static_cast<size_t>(options_.failure_count_max);
    if (summary_.failures.size() > kept) summary_.failures.resize(kept);
    return std::move(summary_);
  }

  static constexpr char kBegun[] = "begun";

  const Experiment& experiment_;
  const ExploreOptions options_;
  uint64_t length_ = 0;
  absl::Status status_;  // Why the search could not go on.
  ExploreSummary summary_;
  std::set<uint64_t> hashes_;
};

}  // namespace

absl::StatusOr<ExploreSummary> Explore(const Experiment& experiment,
                                       const ExploreOptions& options) {
  if (options.seed_count < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("seeds: want 1 or more, got ", options.seed_count));
  }
  if (options.processes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("processes: want 1 or more, got ", options.processes));
  }
  if (options.failure_count_max < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "failures: want 1 or more, got ", options.failure_count_max));
  }
  if (options.run_limit <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("run limit: want more than 0s, got ",
                     absl::FormatDuration(options.run_limit)));
  }
  const auto seed_count = static_cast<uint64_t>(options.seed_count);
  if (options.first_seed > std::numeric_limits<uint64_t>::max() - seed_count) {
    return absl::InvalidArgumentError(
        absl::StrCat("first seed: want ", seed_count, " seeds from it on, got ",
                     options.first_seed));
  }
  return Search(experiment, options).Run();
}

RecordedRun Replay(const Experiment& experiment, const RecordedRun& run,
                   absl::Duration run_limit) {
  absl::Status end;
  return ReplayInChild(experiment, run, run_limit, end);
}

RecordedRun Shrink(const Experiment& experiment, const RecordedRun& failed,
                   int64_t run_count_max, absl::Duration run_limit) {
  RecordedRun shortest = failed;
  if (!failed.trace.has_value()) return shortest;
  SimTrace trace = *failed.trace;
  int64_t runs = 0;
  int64_t killed = 0;
  const auto budget_left = [&] {
    return runs < run_count_max && killed < kKilledRunsMax;
  };
  // Whether the run still fails without the `count` deviations before `end`.
  const auto leave_out = [&](size_t end, size_t count) {
    RecordedRun shorter = {.seed = failed.seed, .length = failed.length};
    SimTrace left = trace;
    const auto last = left.begin() + static_cast<ptrdiff_t>(end);
    left.erase(last - static_cast<ptrdiff_t>(count), last);
    shorter.trace = std::move(left);
    ++runs;
    absl::Status process_end;
    RecordedRun run =
        ReplayInChild(experiment, shorter, run_limit, process_end);
    if (absl::IsDeadlineExceeded(process_end)) ++killed;
    if (run.result.code() != failed.result.code()) return false;
    if (!run.trace.has_value()) return false;
    trace = *run.trace;
    shortest = std::move(run);
    return true;
  };
  // From the end, because what is left out changes the numbers of all choices
  // after it.
  for (size_t count = trace.size(); count > 0;) {
    bool shortened = false;
    for (size_t end = trace.size(); end > 0 && budget_left();) {
      const size_t left_out = std::min(count, end);
      shortened |= leave_out(end, left_out);
      end = std::min(end - left_out, trace.size());
    }
    if (!budget_left() || (count == 1 && !shortened)) break;
    if (count > 1) count = std::min((count + 1) / 2, trace.size());
  }
  return shortest;
}

}  // namespace muonshard::testing
