// What a caller declares about one parameter: the same on every rank.
//
// Shapes     Of the values at one place where the parameter lives: the whole
//            parameter, but of a kSlice one the slice. Row-major, contiguous.
//            A `kMuon` parameter has two dimensions, or three: a bank of
//            matrices [bank, rows, cols].
// Roles      For each mesh axis, what the parameter's gradient and optimizer
//            state are over it. An axis that is not listed has kShard. An axis
//            over which one parameter is kShard or kReplicate carries different
//            data, so none is kDuplicate, kPartial or kSlice over it.
// Errors     kInvalidArgument names the parameter, the field, what was wanted
//            and what was got.

#ifndef OPTIMIZER_PARAMETER_SPEC_H_
#define OPTIMIZER_PARAMETER_SPEC_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "collectives/data_type.h"
#include "topology/mesh.h"
#include "topology/rank.h"

namespace muonshard {

enum class Rule : uint8_t { kMuon, kAdamW };

enum class AxisRole : uint8_t {
  kShard,      // Different data: averaged. State cut over the axis.
  kReplicate,  // Different data: averaged. State copied.
  kDistinct,   // Other values live there. Not averaged, state separate.
  kDuplicate,  // Same data, same gradient. State copied.
  kPartial,    // Same data, parts of one gradient: summed, not averaged.
  kSlice,      // One matrix cut over the axis. State separate.
};

// How a gradient gets from the caller into its bucket.
enum class GradientMode : uint8_t {
  // The caller accumulates in the bucket itself, through
  // `ShardedOptimizer::GradientView`. A gradient found elsewhere at check-in is
  // copied in, and counted.
  kView,
  // The caller accumulates over the micro-batches; the last check-in copies.
  kCopyLast,
  // Each check-in adds into the bucket, which is f32; the caller drops its
  // gradient.
  kAccumulate,
};

// What it means that no rank has a gradient for a parameter in a step. Absent
// on some ranks only, it counts as zero there.
enum class AbsentGradient : uint8_t {
  kError,  // The step fails on every rank and changes nothing.
  kZeros,  // A gradient of zeros: momentum and decay act.
  kSkip,   // Parameter and state keep their bits.
};

// How often a parameter checks in during one step.
enum class CheckIns : uint8_t {
  kExactly,  // Once a micro-batch.
  kAtMost,   // Once a micro-batch or less; reduced by `Finish` if less.
  // As often as it likes, and reduced by `Finish`: a weight that several
  // sub-graphs use, whose hook runs once in each.
  kSyncOnly,
};

// Several matrices side by side or stacked in one parameter: Q, K and V; gate
// and up. Each is orthogonalized and scaled by its own shape.
struct Blocks {
  // 0 for blocks of rows, 1 for blocks of columns.
  int32_t dimension = 0;
  // Empty: one block. Else they and the padding sum to the size of `dimension`.
  std::vector<int64_t> sizes;
  // The last rows or columns that belong to no block. They keep their values,
  // and their gradients enter no matrix, scale or norm.
  int64_t padding = 0;
};

struct ParameterSpec {
  std::string name;
  std::vector<int64_t> shape;
  DataType dtype = DataType::kF32;
  // Of the gradients and of the bucket that holds them.
  DataType gradient_dtype = DataType::kF32;
  Rule rule = Rule::kAdamW;
  // Which matrix dimension is fan-out: 0, as in torch, or 1.
  int32_t fan_out_dimension = 0;
  Blocks blocks;
  std::map<std::string, AxisRole> roles;
  // Of an axis that is kDistinct or kPartial: the coordinates at which the
  // parameter lives, ascending. Not listed: all. Ranks elsewhere do not have
  // it: nothing is bound, checked in or waited for there.
  std::map<std::string, std::vector<int32_t>> coordinates;
  // Lets a kMuon parameter be kSlice: each slice is orthogonalized and scaled
  // as a matrix of its own, which is not what the whole matrix would give.
  bool blockwise = false;
  GradientMode gradient_mode = GradientMode::kCopyLast;
  AbsentGradient absent_gradient = AbsentGradient::kError;
  CheckIns check_ins = CheckIns::kExactly;
  // Multiplies the learning rate of its rule; > 0.
  double learning_rate_scale = 1.0;
  // Which of StepOptions::schedule_factors multiplies it too. Empty: none.
  std::string schedule;
  // Whether decoupled weight decay acts on it.
  bool weight_decay = true;
};

// The number of elements of `spec`.
int64_t ElementCount(const ParameterSpec& spec);

AxisRole RoleOver(const ParameterSpec& spec, absl::string_view axis);

// Whether `rank` has the parameter. `spec` is valid for `mesh`.
bool LivesOn(const ParameterSpec& spec, const Mesh& mesh, Rank rank);

absl::string_view RuleName(Rule rule);
absl::string_view AxisRoleName(AxisRole role);
absl::string_view GradientModeName(GradientMode mode);
absl::string_view AbsentGradientName(AbsentGradient absent);
absl::string_view CheckInsName(CheckIns check_ins);

// Checks one parameter on its own and against `mesh`.
absl::Status Validate(const ParameterSpec& spec, const Mesh& mesh);

// Checks all, that no name is used twice, and that roles agree on which axes
// carry different data.
absl::Status ValidateAll(const std::vector<ParameterSpec>& specs,
                         const Mesh& mesh);

}  // namespace muonshard

#endif  // OPTIMIZER_PARAMETER_SPEC_H_
