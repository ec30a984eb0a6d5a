#include "collectives/runtime/sim_search.h"

#include "absl/strings/str_cat.h"

namespace muonshard {

// The default comes first, then the others in the order of their ids.
size_t SimSearch::IndexOf(const Fork& fork) {
  if (fork.tried == 0) return fork.first;
  return fork.tried <= fork.first ? fork.tried - 1 : fork.tried;
}

int32_t SimSearch::PreemptionsAfter(const Fork& fork) {
  return fork.preemptions_before + (fork.preempts && fork.tried > 0 ? 1 : 0);
}

size_t SimSearch::AlternativeCount(const Fork& fork) const {
  const bool exhausted =
      fork.preempts && fork.preemptions_before == options_.preemptions_max;
  return exhausted ? 1 : fork.candidate_count;
}

SimScheduler* SimSearch::Next() {
  if (run_count_ > 0) {
    if (status_.ok() && choice_count_ < path_.size()) {
      status_ = absl::FailedPreconditionError(absl::StrCat(
          "run ", run_count_, " made ", choice_count_,
          " choices where an earlier one that began with the same made ",
          path_.size(), " or more"));
    }
    if (!status_.ok()) return nullptr;
    while (!path_.empty() &&
           path_.back().tried + 1 == AlternativeCount(path_.back())) {
      path_.pop_back();
    }
    if (path_.empty()) return nullptr;
    ++path_.back().tried;
  }
  ++run_count_;
  choice_count_ = 0;
  return this;
}

size_t SimSearch::Choose(const SimChoice& choice) {
  const size_t number = choice_count_++;
  const size_t first = DefaultChoice(choice);
  if (number < path_.size()) {
    const Fork& fork = path_[number];
    if (fork.candidate_count == choice.candidates.size() &&
        fork.first == first) {
      return IndexOf(fork);
    }
    status_.Update(absl::FailedPreconditionError(absl::StrCat(
        "choice ", number, " of run ", run_count_, " is among ",
        choice.candidates.size(), " tasks, and was among ",
        fork.candidate_count, " in a run that began with the same choices")));
    return first;
  }
  if (number >= options_.depth_max) {
    cut_off_ = true;
    return first;
  }
  path_.push_back({.candidate_count = choice.candidates.size(),
                   .first = first,
                   .tried = 0,
                   .preempts = choice.caller < choice.candidates.size() &&
                               choice.call != SimCall::kYield,
                   .preemptions_before =
                       path_.empty() ? 0 : PreemptionsAfter(path_.back())});
  return first;
}

}  // namespace muonshard
