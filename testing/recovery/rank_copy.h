// All that one rank of an optimizer keeps, copied: what is needed to go on from
// the end of a step, on any rank of a new group that takes its place.

#ifndef TESTING_RECOVERY_RANK_COPY_H_
#define TESTING_RECOVERY_RANK_COPY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/grad_scaler.h"
#include "optimizer/sharded_optimizer.h"
#include "testing/sharded_case.h"

namespace muonshard::testing {

// A ParameterState that owns what it shows.
class StateCopy {
 public:
  explicit StateCopy(const ParameterState& state);

  ParameterState state() const;

 private:
  struct Piece {
    int64_t parameter_offset;
    int64_t count;
    std::vector<float> first;
    std::vector<float> second;
    std::vector<float> master;
    std::vector<float> row_moments;
  };

  int64_t step_count_;
  std::vector<Piece> pieces_;
};

struct RankCopy {
  int64_t step = 0;  // After which it was taken; 0: before the first.
  std::vector<ParameterBytes> parameters;
  std::vector<StateCopy> states;
  GradScalerState scaler;
};

// After a step that is over. `parameters` is what `optimizer` is bound to.
absl::StatusOr<RankCopy> CopyOfRank(
    int64_t step, const std::vector<ParameterBytes>& parameters,
    const GradScaler& scaler, ShardedOptimizer& optimizer);

// Before the first step of `optimizer`, which is bound to `parameters`.
absl::Status RestoreRank(const RankCopy& copy,
                         std::vector<ParameterBytes>& parameters,
                         GradScaler& scaler, ShardedOptimizer& optimizer);

}  // namespace muonshard::testing

#endif  // TESTING_RECOVERY_RANK_COPY_H_
