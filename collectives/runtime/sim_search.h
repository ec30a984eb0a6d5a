// All schedules of a small program, one run after another.
//
//   SimSearch search({.preemptions_max = 2});
//   while (SimScheduler* scheduler = search.Next()) {
//     ... a run of the same program with *scheduler ...
//   }
//
// In this file
//   preemption   a choice of another task although the caller could go on. Most
//                faults need few (Musuvathi and Qadeer, PLDI 2007), and their
//                number, not that of the choices, makes the search long.
//
// Threads      As sim_scheduler.h.
// Errors       A program that does something else when it is run again with
//              the same choices makes the search end; `status` says so.

#ifndef COLLECTIVES_RUNTIME_SIM_SEARCH_H_
#define COLLECTIVES_RUNTIME_SIM_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "collectives/runtime/sim_scheduler.h"

namespace muonshard {

struct SimSearchOptions {
  int32_t preemptions_max = 2;
  // Choices after so many in one run are left to the default.
  size_t depth_max = 1000;
};

class SimSearch final : private SimScheduler {
 public:
  explicit SimSearch(const SimSearchOptions& options) : options_(options) {}

  // The scheduler of the next run, or null when there is none. It is used for
  // one run and belongs to the search.
  SimScheduler* Next();

  int64_t run_count() const { return run_count_; }
  // All schedules within `preemptions_max` were run, once `Next` has returned
  // null: none was cut off by `depth_max`.
  bool complete() const { return !cut_off_ && status_.ok(); }
  const absl::Status& status() const { return status_; }

 private:
  // A choice on the way that the present run takes.
  struct Fork {
    size_t candidate_count;
    size_t first;   // The default, tried before the others.
    size_t tried;   // How many before the present one.
    bool preempts;  // Others than the default do.
    int32_t preemptions_before;
  };

  size_t Choose(const SimChoice& choice) override;
  static size_t IndexOf(const Fork& fork);
  static int32_t PreemptionsAfter(const Fork& fork);
  size_t AlternativeCount(const Fork& fork) const;

  const SimSearchOptions options_;
  std::vector<Fork> path_;
  size_t choice_count_ = 0;  // Of the present run.
  int64_t run_count_ = 0;
  bool cut_off_ = false;
  absl::Status status_;
};

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_SIM_SEARCH_H_
