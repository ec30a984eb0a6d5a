// A whole optimizer run as a value: the same run sharded over ranks and
// unsharded on one, for tests that hold the two against each other.
//
// Gradients, first values, the number and the order of check-ins are pure
// functions of the case's seed, the rank, the parameter, the step and the
// check-in. Ranks that differ along duplicate axes alone have equal gradients.

#ifndef TESTING_SHARDED_CASE_H_
#define TESTING_SHARDED_CASE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "optimizer/grad_scaler.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/sharded_optimizer.h"
#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard::testing {

enum class GradientValues : uint8_t {
  kRandom,
  // -k, 0 or k, where k is the odd part of the number of ranks: sums are exact,
  // the same in every order, and so is each level's share of the divisor. In
  // bf16 for up to 256 / k of them.
  kExactSums,
};

// One element that is infinite in the first check-in of a gradient.
struct InjectedOverflow {
  Rank rank = Rank(0);
  int32_t parameter = 0;
  int64_t step = 0;
};

// A hook that fires once more than there are micro-batches, for a parameter
// that checks in exactly as often. The step fails on all ranks.
struct ExtraCheckIn {
  Rank rank = Rank(0);
  int32_t parameter = 0;
  int64_t step = 0;
};

struct ShardedCase {
  std::string mesh;
  std::vector<ParameterSpec> specs;
  OptimizerOptions options;
  // The identity of each rank's host; empty: all are on one.
  std::vector<std::string> hosts;
  int32_t steps = 2;
  int32_t micro_batches = 1;
  double clip_norm = 0;
  uint64_t seed = 0;
  GradientValues gradients = GradientValues::kRandom;
  std::vector<InjectedOverflow> overflows;
  std::vector<ExtraCheckIn> extra_check_ins;
  // Every rank has such a scaler, by whose scale gradients are multiplied.
  std::optional<GradScalerOptions> scaler;
  // Tasks of a rank that check gradients in beside one another; a parameter's
  // come from one of them.
  int32_t hook_tasks = 1;
  // A step that fails ends the run, or is noted and the next one begins.
  bool goes_on_after_errors = false;
  // A rank whose step fails resyncs with the others on a new group, and goes on
  // behind the last step that counts.
  bool recovers = false;
  // Whether `rank` has a gradient for parameter `p` in `step`, which counts
  // from 1. Absent function: always. Asked of the first duplicate only.
  std::function<bool(Rank rank, int32_t p, int64_t step)> has_gradient;
  // All but clip norm and loss scale. Absent function: the defaults.
  std::function<StepOptions(int64_t step)> step_options;
};

// Meshes of 1 to 8 ranks on one or more hosts, all rules, roles, modes and
// types; rows or columns of 1, more ranks than matrices, empty segments, one
// huge matrix.
ShardedCase RandomShardedCase(uint64_t seed);

// For a person who reads a failure.
std::string Describe(const ShardedCase& sharded);

HostMap HostsOf(const ShardedCase& sharded, const Mesh& mesh);

using ParameterBytes = std::vector<std::byte>;

// How often `rank` checks in parameter `p` in `step`; 0 without a gradient.
int32_t CheckInCountOf(const ShardedCase& sharded, Rank rank, int32_t p,
                       int64_t step);
// Values of the gradient of one check-in, which counts from 0, in the spec's
// gradient dtype.
ParameterBytes GradientOf(const ShardedCase& sharded, Rank rank, int32_t p,
                          int64_t step, int32_t check_in,
                          double loss_scale = 1);
// sum += gradient, rounded to `type` after each element, as a caller that
// accumulates does.
void AddGradient(DataType type, const ParameterBytes& gradient, std::byte* sum);
// The first values of a parameter: equal on all ranks where it is the same
// parameter, others where it lives apart.
ParameterBytes FirstValuesOf(const ShardedCase& sharded, const Mesh& mesh,
                             Rank rank, int32_t p);

}  // namespace muonshard::testing

#endif  // TESTING_SHARDED_CASE_H_
