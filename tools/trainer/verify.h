// Holds a sharded run against the unsharded optimizer, bit for bit.
//
// Every rank hands over each gradient as autograd gave it. When all ranks have
// handed over a step, the gradients are added up in plain loops, over
// micro-batches and then over ranks and levels in the canonical order, and the
// unsharded optimizer takes the step: for each place at which a parameter has
// other values, a parameter of its own. Nothing passes through the plugin, the
// plan or the buckets under test.
//
// Threads    Ranks call at once. The last rank of a step takes it, in
//            `EndBackward`.
// Memory     Copies of all gradients of the steps that are under way.
// Errors     What the unsharded optimizer refuses, and a rank that scales its
//            loss otherwise than the unsharded run does; kept, and returned by
//            every later call.

#ifndef TOOLS_TRAINER_VERIFY_H_
#define TOOLS_TRAINER_VERIFY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/runtime/runtime.h"
#include "optimizer/grad_scaler.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/unsharded/gradient_places.h"
#include "optimizer/unsharded/unsharded_optimizer.h"
#include "topology/host_map.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {

struct VerifyDifference {
  // NaN if one side alone is not a number.
  double max_abs = 0;
  int64_t different_count = 0;  // Elements whose bits differ.
};

struct VerifySetup {
  std::vector<ParameterSpec> specs;
  Mesh mesh;
  HostMap hosts = HostMap::FromHostIds({});
  OptimizerOptions options;
  // Of a parameter on a rank, in its type.
  std::function<std::vector<std::byte>(Rank rank, int32_t parameter)>
      first_values;
  double clip_norm = 0;
  std::optional<GradScalerOptions> scaler;  // Absent: losses are not scaled.
};

class Verifier {
 public:
  static absl::StatusOr<std::unique_ptr<Verifier>> Create(Runtime& runtime,
                                                          VerifySetup setup);

  // The gradient of one backward alone, in its type, in the order of
  // micro-batches.
  void Deposit(Rank rank, int64_t step, int32_t parameter,
               std::span<const std::byte> gradient);

  // `rank` has deposited all of `step`, of a loss times `loss_scale`. Steps end
  // in order on every rank.
  absl::Status EndBackward(Rank rank, int64_t step, double loss_scale);

  // For ranks in processes of their own, each with a Verifier: what `rank`
  // deposited of `step`, and the deposits and the end of the backward that
  // another process says so of.
  std::string Contribution(Rank rank, int64_t step, double loss_scale);
  absl::Status TakeContribution(Rank rank, int64_t step,
                                absl::string_view contribution);

  // Between `values` on `rank` and the unsharded optimizer's parameter, after
  // the same number of steps; added to `difference`.
  void Compare(Rank rank, int32_t parameter, std::span<const std::byte> values,
               VerifyDifference& difference) const;

 private:
  // Of one step and rank.
  struct OfRank {
    // By parameter, summed over micro-batches; empty where there is none.
    std::vector<std::vector<std::byte>> sums;
    double loss_scale = 1;
  };
  struct OfStep {
    std::vector<OfRank> ranks;
    int32_t ranks_done = 0;
  };

  Verifier(Runtime& runtime, VerifySetup setup,
           std::vector<GradientPlace> places, UnshardedOptimizer optimizer,
           GradScaler scaler);
  // The next three hold mutex_.
  OfStep& At(int64_t step);
  absl::Status CheckScales(const OfStep& of_step) const;
  absl::Status TakeStep(const OfStep& of_step);

  const VerifySetup setup_;
  const std::vector<GradientPlace> places_;
  // [rank][parameter]: index of a place; -1 where the parameter is not.
  std::vector<std::vector<int32_t>> place_of_;
  const std::unique_ptr<Mutex> mutex_;
  // Guarded by `mutex_`.
  std::map<int64_t, OfStep> steps_;
  UnshardedOptimizer optimizer_;
  GradScaler scaler_;
  absl::Status status_;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_VERIFY_H_
