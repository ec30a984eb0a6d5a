// The groups that a plan's buckets travel in, made from a world group.
//
// Order      Group ranks are in the order of the plan's groups, as segments
//            are.
// Threads    Like the collectives in it.
// Cost       One split of the world for each kind of group, and two more for
//            one that is hierarchical anywhere.
// Errors     kInvalidArgument if a level world has not the ranks of the world

#ifndef OPTIMIZER_GROUP_SET_H_
#define OPTIMIZER_GROUP_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "optimizer/plan.h"

namespace muonshard {

// Where the levels of hierarchical groups are split from: other groups of the
// ranks of the world, in the same order, of any plugin. Null: the world.
struct LevelWorlds {
  Collective* host_level = nullptr;
  Collective* lane_level = nullptr;
};

// OK if `levels` fit `world`.
absl::Status CheckLevelWorlds(const Collective& world,
                              const LevelWorlds& levels);

class GroupSet {
 public:
  // Makes the groups of the classes that live here, and takes part in the
  // splits for those that do not. A collective call; `levels` are null or not
  // alike on all ranks.
  static absl::StatusOr<GroupSet> Create(const Plan& plan, Collective& world,
                                         const LevelWorlds& levels,
                                         absl::Time deadline);

  // The ranks over the shard axes of a class that lives here.
  Collective& shards(int32_t bucket_class) const {
    return *shards_[static_cast<size_t>(bucket_class)];
  }
  // The ranks over its replicate and partial axes.
  Collective& replicas(int32_t bucket_class) const {
    return *replicas_[static_cast<size_t>(bucket_class)];
  }

  // Payload bytes that this rank sent in all groups together, at all levels.
  absl::StatusOr<uint64_t> BytesSent() const;

  // Breaks every group; see Collective::Abort.
  void Abort(const absl::Status& reason) const;

 private:
  std::map<std::string, std::unique_ptr<Collective>> by_name_;
  // By class, into by_name_; null where the class does not live.
  std::vector<Collective*> shards_;
  std::vector<Collective*> replicas_;
};

}  // namespace muonshard

#endif  // OPTIMIZER_GROUP_SET_H_
