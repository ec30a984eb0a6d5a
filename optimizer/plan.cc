#include "optimizer/plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "optimizer/bucket_layout.h"
#include "optimizer/classification.h"
#include "optimizer/group_levels.h"
#include "optimizer/plan_lines.h"
#include "optimizer/rank_load.h"
#include "optimizer/shard_groups.h"
#include "optimizer/stable_hash.h"
#include "optimizer/unit.h"
#include "optimizer/unit_owners.h"

namespace muonshard {
namespace {

absl::Status CheckInputs(const std::vector<ParameterSpec>& specs,
                         const Mesh& mesh, const HostMap& hosts,
                         const OptimizerOptions& options) {
  if (absl::Status s = Validate(options); !s.ok()) return s;
  if (specs.empty()) {
    return absl::InvalidArgumentError("want at least one parameter, got none");
  }
  if (absl::Status s = ValidateAll(specs, mesh); !s.ok()) return s;
  if (hosts.size() != mesh.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("hosts: want one for each of the ", mesh.size(),
                     " ranks of the mesh, got ", hosts.size()));
  }
  return absl::OkStatus();
}

// An axis carries different data if any parameter is averaged over it.
int64_t DivisorOf(const std::vector<BucketClass>& classes, const Mesh& mesh) {
  int64_t divisor = 1;
  for (const MeshAxis& axis : mesh.axes()) {
    const auto lists = [&axis](const std::vector<std::string>& axes) {
      return std::find(axes.begin(), axes.end(), axis.name) != axes.end();
    };
    const bool averaged = std::any_of(
        classes.begin(), classes.end(), [&lists](const BucketClass& c) {
          return lists(c.shard_axes) || lists(c.replicate_axes);
        });
    if (averaged) divisor *= axis.degree;
  }
  return divisor;
}

}  // namespace

absl::StatusOr<Plan> Plan::Create(const std::vector<ParameterSpec>& specs,
                                  const Mesh& mesh, const HostMap& hosts,
                                  const OptimizerOptions& options) {
  if (absl::Status s = CheckInputs(specs, mesh, hosts, options); !s.ok()) {
    return s;
  }
  absl::StatusOr<std::vector<Unit>> units = ListUnits(specs, options);
  if (!units.ok()) return units.status();
  const Hierarchy hierarchy = options.plan.hierarchy;
  const Classification classification = Classify(specs, mesh, hosts, hierarchy);
  absl::StatusOr<std::vector<GroupSpread>> spreads =
      SpreadGroups(classification.classes, mesh, hosts, hierarchy);
  if (!spreads.ok()) return spreads.status();
  if (absl::Status s = AssignUnitOwners(specs, classification, options, *units);
      !s.ok()) {
    return s;
  }
  Plan plan;
  plan.mesh = mesh;
  plan.hosts = hosts;
  plan.hierarchy = hierarchy;
  plan.specs = specs;
  plan.classes = classification.classes;
  plan.spreads = *std::move(spreads);
  plan.divisors.assign(specs.size(), DivisorOf(plan.classes, mesh));
  plan.buckets = LayOutBuckets(specs, classification, *units,
                               options.plan.bucket_bytes_max);
  plan.parts = MakeParts(options.plan.buckets_per_part, plan.buckets);
  MeasureLoads(classification, *units, options, plan);
  plan.lines = DescribePlan(plan, options);
  return plan;
}

bool Plan::LivesOn(int32_t bucket_class, Rank rank) const {
  return muonshard::LivesOn(classes[static_cast<size_t>(bucket_class)], mesh,
                            rank);
}

std::vector<Rank> Plan::GroupOf(int32_t bucket_class, Rank rank) const {
  return ShardGroupOf(classes[static_cast<size_t>(bucket_class)], mesh, hosts,
                      rank);
}

std::vector<Rank> Plan::ReplicasOf(int32_t bucket_class, Rank rank) const {
  return ReplicaGroupOf(classes[static_cast<size_t>(bucket_class)], mesh, hosts,
                        rank);
}

GroupLevels Plan::LevelsOfGroup(int32_t bucket_class, Rank rank) const {
  return LevelsOf(classes[static_cast<size_t>(bucket_class)],
                  GroupOf(bucket_class, rank), hosts, hierarchy);
}

GroupLevels Plan::LevelsOfReplicas(int32_t bucket_class, Rank rank) const {
  return LevelsOf(classes[static_cast<size_t>(bucket_class)],
                  ReplicasOf(bucket_class, rank), hosts, hierarchy);
}

bool Plan::CountsInNorm(int32_t bucket_class, Rank rank) const {
  const BucketClass& made = classes[static_cast<size_t>(bucket_class)];
  return FirstDuplicate(made, mesh, rank) == rank &&
         ReplicasOf(bucket_class, rank).front() == rank;
}

uint64_t Plan::Fingerprint() const { return HashLines(lines); }

}  // namespace muonshard
