// The optimizer state of one rank's segments, and the update of a bucket's own
// segment: gradient and state in, new parameters into the gather buffer.
//
// Threads    One task at a time.
// Numerics   See compute/update.h; a unit's bits do not depend on its bucket.
//            A narrow parameter with master weights is its f32 master, rounded
//            to nearest even; the master is made from the parameter in the
//            first step that updates it.

#ifndef OPTIMIZER_SEGMENT_UPDATE_H_
#define OPTIMIZER_SEGMENT_UPDATE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "optimizer/bucket_buffers.h"
#include "optimizer/control_vector.h"
#include "optimizer/optimizer_state.h"
#include "optimizer/options.h"

namespace muonshard {

class SegmentUpdater {
 public:
  // All arguments outlive it.
  SegmentUpdater(Runtime& runtime, const OptimizerOptions& options,
                 BucketBuffers& buffers);

  // Memory of parameter `p`; read by Update.
  void Bind(int32_t p, std::byte* data) {
    bound_[static_cast<size_t>(p)] = data;
  }
  std::byte* bound(int32_t p) const { return bound_[static_cast<size_t>(p)]; }

  // Counts the step in for every parameter that takes part in it.
  void BeginStep(const StepDecision& decision);

  // Updates the own segment of `bucket`. Returns what Muon took of the time.
  absl::Duration Update(int32_t bucket, const StepDecision& decision,
                        const StepOptions& step);

  // Of parameter `p`; behind the updates of its bucket.
  ParameterState State(int32_t p) const;

  // The other way; behind no update. kInvalidArgument, and nothing is changed,
  // if its pieces are not the own ones.
  absl::Status Restore(int32_t p, const ParameterState& state);

  // Copies what was gathered to the parameters.
  void CopyOut(int32_t bucket);
  // Copies the parameters of the own segment to where they are gathered from.
  void CopyIn(int32_t bucket);

 private:
  // Of one own piece: momentum and row moments of a unit, both moments of a run
  // of chunks.
  struct PieceState {
    int32_t piece = 0;
    std::vector<float> first;
    std::vector<float> second;
    std::vector<float> master;  // Empty before the first update, or without.
  };

  bool has_master(int32_t p) const;

  void CopyPieceIn(int32_t bucket, const Piece& piece);
  void UpdatePiece(int32_t bucket, PieceState& state, const StepOptions& step,
                   double gradient_factor);

  Runtime& runtime_;
  const OptimizerOptions& options_;
  BucketBuffers& buffers_;
  const Plan& plan_;
  std::vector<std::byte*> bound_;                // By parameter.
  std::vector<int64_t> steps_;                   // By parameter.
  std::vector<std::vector<PieceState>> states_;  // By bucket.
  std::vector<float> workspace_;                 // Of the largest own unit.
};

}  // namespace muonshard

#endif  // OPTIMIZER_SEGMENT_UPDATE_H_
