// The groups that a plan's buckets travel in, made from a world group.
//
// Order      Group ranks are in (host, lane) order, as the plan's segments are.
// Threads    Like the collectives in it.

#ifndef OPTIMIZER_GROUP_SET_H_
#define OPTIMIZER_GROUP_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "optimizer/plan.h"

namespace muonshard {

class GroupSet {
 public:
  // Splits `world` once for each kind of group that the classes of `plan` name.
  // A collective call.
  static absl::StatusOr<GroupSet> Create(const Plan& plan, Collective& world,
                                         absl::Time deadline);

  // The ranks over the shard axes of a class.
  Collective& shards(int32_t bucket_class) const {
    return *shards_[static_cast<size_t>(bucket_class)];
  }
  // The ranks over the replicate axes of a class.
  Collective& replicas(int32_t bucket_class) const {
    return *replicas_[static_cast<size_t>(bucket_class)];
  }

  // Payload bytes that this rank sent in all groups together.
  absl::StatusOr<uint64_t> BytesSent() const;

  // Breaks every group; see Collective::Abort.
  void Abort(const absl::Status& reason) const;

 private:
  std::map<std::string, std::unique_ptr<Collective>> by_axes_;
  std::vector<Collective*> shards_;    // By class; into by_axes_.
  std::vector<Collective*> replicas_;  // By class; into by_axes_.
};

}  // namespace muonshard

#endif  // OPTIMIZER_GROUP_SET_H_
