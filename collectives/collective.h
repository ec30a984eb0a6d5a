// One rank's handle on a group of ranks that exchange buffers.
//
// In this file
//   N         number of ranks in the group
//   r         the own rank in the group, in [0, N)
//   counts    elements, one entry per rank; zero and uneven ones are ordinary
//   segment i the run of counts[i] elements after those of ranks 0..i-1
//
// Ordering     Every rank starts the same operations in the same order; they
//              run in that order. Messages (Send, Recv) meet per pair of ranks
//              and run beside later operations: what must come after one has
//              it in `ready`. Groups do not order one another.
// Threads      Calls on one object do not overlap, but for `Abort`, which may
//              come from any task. A Work's callback may drop it.
// Memory       Buffers belong to the returned Work until it ends. An input may
//              equal its output exactly where a method says so; they never
//              overlap in part.
// Numerics     With `capabilities().canonical`: each contribution is converted
//              to the accumulation type (f32 for f16 and bf16, else its own),
//              folded left to right over ranks 0..N-1, scaled once if there is
//              a scale (itself rounded to that type), rounded once; a hierarchy
//              does so per level. AllReduce, Broadcast and AllGatherV leave the
//              same bits on all ranks, always.
// Errors       kInvalidArgument     this call was wrong; nothing was sent
//              kUnimplemented       the plugin lacks it; nothing was sent
//              kFailedPrecondition  the ranks disagree on the operation, or
//                                   wait for each other for ever
//              kUnavailable         a peer was lost
//              kDeadlineExceeded    the operation's own deadline passed
//              kAborted             `Abort` was called, or a rank left
//              After the last four the group is broken, for good: calls
//              return the first such error, on every rank.

#ifndef COLLECTIVES_COLLECTIVE_H_
#define COLLECTIVES_COLLECTIVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/buffer.h"
#include "collectives/capabilities.h"
#include "collectives/collective_memory.h"
#include "collectives/launch.h"
#include "collectives/operation.h"
#include "collectives/runtime/runtime.h"
#include "collectives/work.h"
#include "topology/rank.h"

namespace muonshard {

class Collective {
 public:
  virtual ~Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  Rank rank() const { return rank_; }
  int32_t size() const { return size_; }
  const std::string& name() const { return name_; }
  const Capabilities& capabilities() const { return capabilities_; }
  Runtime& runtime() const { return runtime_; }

  // n elements in, n out on every rank. In place is allowed.
  absl::StatusOr<Work> AllReduce(ConstBuffer in, MutableBuffer out,
                                 Reduction reduction, CallOptions options = {});
  // n elements in; n out on `root` alone. In place is allowed.
  absl::StatusOr<Work> Reduce(ConstBuffer in, MutableBuffer out,
                              Reduction reduction, Rank root,
                              CallOptions options = {});
  // n elements in on `root` alone; n out. In place is allowed on the root.
  absl::StatusOr<Work> Broadcast(ConstBuffer in, MutableBuffer out, Rank root,
                                 CallOptions options = {});
  // All segments in; segment r of the reduction out, which may be that of `in`.
  absl::StatusOr<Work> ReduceScatterV(ConstBuffer in, MutableBuffer out,
                                      std::vector<int64_t> counts,
                                      Reduction reduction,
                                      CallOptions options = {});
  // counts[r] elements in; all segments out. `in` may be segment r of `out`.
  absl::StatusOr<Work> AllGatherV(ConstBuffer in, MutableBuffer out,
                                  std::vector<int64_t> counts,
                                  CallOptions options = {});
  // in_counts[i] elements go to rank i, out_counts[i] come from it, in rank
  // order without gaps.
  absl::StatusOr<Work> AllToAllV(ConstBuffer in, MutableBuffer out,
                                 std::vector<int64_t> in_counts,
                                 std::vector<int64_t> out_counts,
                                 CallOptions options = {});
  absl::StatusOr<Work> Send(ConstBuffer in, Rank peer,
                            CallOptions options = {});
  absl::StatusOr<Work> Recv(MutableBuffer out, Rank peer,
                            CallOptions options = {});
  absl::StatusOr<Work> Barrier(CallOptions options = {});

  // A group for each color >= 0, ranks ordered by (key, rank here); null for
  // color -1. A collective call that waits, until `deadline`, for all ranks.
  virtual absl::StatusOr<std::unique_ptr<Collective>> Split(
      int32_t color, int32_t key, absl::string_view name,
      absl::Time deadline) = 0;

  // Breaks the group: all calls end with kAborted on all ranks, with `reason`
  // in the message. Does not block. Idempotent.
  virtual void Abort(const absl::Status& reason) = 0;

  // OK, or the error that broke the group.
  virtual absl::Status Health() const = 0;
  virtual absl::StatusOr<CollectiveCounters> Counters() const = 0;

  // Memory for buffers that are used again, of as many bytes as each rank
  // wants. With `window`, calls copy less of it. A collective call, as Split.
  virtual absl::StatusOr<std::unique_ptr<CollectiveMemory>> NewMemory(
      int64_t bytes, absl::Time deadline);

 protected:
  Collective(Runtime& runtime, Rank rank, int32_t size, std::string name,
             Capabilities capabilities);

  // What `collective` turns `operation` into, for one made of others.
  static absl::StatusOr<LoweredCall> LowerWith(Collective& collective,
                                               Operation operation);
  // Breaks it with the error that broke another one.
  static void BreakWith(Collective& collective, const absl::Status& error);

 private:
  friend class Batch;

  absl::StatusOr<Work> Start(Operation operation);
  // Turns a checked operation into what is posted: one launch, where it is
  // flat.
  virtual absl::StatusOr<LoweredCall> Lower(Operation operation) = 0;
  // Posts a checked operation: what a batch of one would.
  virtual absl::StatusOr<Work> PostAlone(Operation operation);
  // As Abort, but calls end with `error` where the plugin allows it.
  virtual void Break(const absl::Status& error) { Abort(error); }

  Runtime& runtime_;
  const Rank rank_;
  const int32_t size_;
  const std::string name_;
  const Capabilities capabilities_;
};

}  // namespace muonshard

#endif  // COLLECTIVES_COLLECTIVE_H_
