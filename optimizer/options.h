// The hyper-parameters and limits of a sharded optimizer: the same on every
// rank.
//
// Muon's are in optimizer/muon_options.h. Defaults of AdamW are those of
// torch.optim.AdamW, by value.
//
// Errors     `Validate` returns kInvalidArgument that names the field, its
//            range and what was got.

#ifndef OPTIMIZER_OPTIONS_H_
#define OPTIMIZER_OPTIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "optimizer/muon_options.h"

namespace muonshard {

struct AdamWOptions {
  double learning_rate = 1e-3;  // > 0
  double weight_decay = 1e-2;   // >= 0
  double beta1 = 0.9;           // in [0, 1)
  double beta2 = 0.999;         // in [0, 1)
  double epsilon = 1e-8;        // > 0 as an f32
};

// Whether groups on several hosts reduce and gather in two levels; see
// collectives/hierarchical_collective.h. A group on one host, or with one rank
// on each, is flat in any case.
enum class Hierarchy : uint8_t {
  kOff,
  // Refused if a group on several hosts has unequal numbers of ranks on them,
  // or if no group has two hosts and two ranks on each.
  kOn,
  // Groups that cannot are flat, and the plan's report says why.
  kAuto,
};

struct PlanOptions {
  // A bucket closes before its gradients would exceed this, padding not
  // counted, unless one parameter alone is larger. Any value >= 1 is taken; it
  // changes no result.
  int64_t bucket_bytes_max = int64_t{25} << 20;
  // Buckets of one update part, at most. 0: the plan chooses.
  int32_t buckets_per_part = 0;  // >= 0
  // Optimizer state and Newton-Schulz workspace of one rank, in bytes. 0: no
  // cap.
  int64_t rank_memory_bytes_max = 0;  // >= 0
  Hierarchy hierarchy = Hierarchy::kAuto;
};

// When the new parameters have to have come.
enum class GatherMode : uint8_t {
  kEager,  // Before `Step` returns.
  kLazy,   // Before WaitForParameters returns: during the next forward.
};

struct OptimizerOptions {
  MuonOptions muon;
  AdamWOptions adamw;
  PlanOptions plan;
  // On: a reduction is launched when its bucket is full. Off: by `Finish`.
  bool overlap = true;
  GatherMode gather = GatherMode::kLazy;
  // f16 and bf16 parameters have f32 masters, which are updated; a parameter is
  // its master, rounded. Made from the parameter in its first step.
  bool master_weights = true;
  // Gives the memory of gradient buckets back between steps.
  bool release_gradients = false;
  // Every how many steps, and in the first, parameters that are the same on
  // several ranks are compared; a difference fails the step. 0: never.
  int64_t equality_check_interval = 100;  // >= 0
  // On: `Step` waits for the decision and returns its error. Off: it returns at
  // once, and the error is returned by the next call that waits.
  bool synchronous_errors = false;
  // How long any operation may wait for another rank; finite and > 0. A call
  // that waits for operations gives up an eighth later, so that the error of
  // one, which names ranks, comes first.
  absl::Duration timeout = absl::Minutes(5);
};

absl::string_view HierarchyName(Hierarchy hierarchy);
absl::string_view GatherModeName(GatherMode mode);

absl::Status Validate(const OptimizerOptions& options);

}  // namespace muonshard

#endif  // OPTIMIZER_OPTIONS_H_
