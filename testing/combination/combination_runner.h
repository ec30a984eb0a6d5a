// Runs combinations on one mesh and holds each run against the unsharded twin
// and the fp64 reference.
//
// Result     gtest failures, and counts of runs by what became of them.
// Threads    Like an int.

#ifndef TESTING_COMBINATION_COMBINATION_RUNNER_H_
#define TESTING_COMBINATION_COMBINATION_RUNNER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "testing/combination/combination.h"
#include "testing/combination/combination_mesh.h"
#include "testing/rank_harness.h"
#include "testing/reference_run.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"

namespace muonshard::testing {

struct RunCounts {
  int equal = 0;    // To the twin; of exact sums to the reference too.
  int refused = 0;  // At construction, with the expected reason.
};

class CombinationRunner {
 public:
  CombinationRunner(CombinationMesh mesh, GradientValues gradients);

  // Expects that the run of `combination` equals, bit for bit, the unsharded
  // one: parameters, outcomes with the global norm, errors, scaler. And if
  // gradients are exact sums, also the unsharded one without hierarchy, and the
  // reference within its bound. Or that all ranks refuse it.
  void Run(const Combination& combination, const RuntimeCase& runtime);

  const RunCounts& counts() const { return counts_; }

 private:
  // What runs must equal that differ only in what changes no bits.
  struct Expected {
    UnshardedRun unsharded;
    ReferenceRun reference;
  };

  const Expected* ExpectedOf(const Combination& combination);
  void ExpectNearReference(const ShardedCase& sharded, const ShardedRun& got,
                           const ReferenceRun& want) const;

  const CombinationMesh mesh_;
  const GradientValues gradients_;
  std::map<std::string, std::unique_ptr<Expected>> expected_;
  RunCounts counts_;
};

// Runs all of `combinations`, with seeds of their own, and prints and checks
// how many runs there were.
void RunAll(const std::vector<Combination>& combinations,
            const CombinationMesh& mesh, RuntimeCase::Kind kind,
            GradientValues gradients);

}  // namespace muonshard::testing

#endif  // TESTING_COMBINATION_COMBINATION_RUNNER_H_
