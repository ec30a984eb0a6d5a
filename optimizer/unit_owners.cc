#include "optimizer/unit_owners.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "optimizer/owner_assignment.h"
#include "optimizer/plan.h"

namespace muonshard {
namespace {

struct UnitSet {
  const ShardGroups* groups = nullptr;
  std::vector<size_t> units;  // Indices.
};

struct Owners {
  std::vector<int32_t> owners;  // By unit.
  int64_t heaviest_load = 0;
};

// Over all ranks of the mesh.
struct Carried {
  std::vector<int64_t> loads;
  std::vector<int64_t> memory_bytes;
};

std::vector<UnitSet> MakeSets(const Classification& classification,
                              const std::vector<Unit>& units) {
  std::vector<UnitSet> sets(classification.groups.size());
  for (size_t i = 0; i < sets.size(); ++i) {
    sets[i].groups = &classification.groups[i];
  }
  for (size_t i = 0; i < units.size(); ++i) {
    const int32_t bucket_class =
        classification
            .class_of_parameter[static_cast<size_t>(units[i].parameter)];
    const int32_t set =
        classification.groups_of_class[static_cast<size_t>(bucket_class)];
    sets[static_cast<size_t>(set)].units.push_back(i);
  }
  return sets;
}

std::vector<OwnerRank> GroupRanks(const ShardGroups& groups,
                                  const Carried& carried) {
  std::vector<OwnerRank> ranks(static_cast<size_t>(groups.group_size));
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i].host = groups.hosts[i];
  for (size_t rank = 0; rank < groups.group_rank.size(); ++rank) {
    OwnerRank& member = ranks[static_cast<size_t>(groups.group_rank[rank])];
    member.load = std::max(member.load, carried.loads[rank]);
    member.memory_bytes =
        std::max(member.memory_bytes, carried.memory_bytes[rank]);
  }
  return ranks;
}

std::vector<OwnedItem> ItemsOf(const std::vector<ParameterSpec>& specs,
                               const std::vector<Unit>& units,
                               const UnitSet& set) {
  std::vector<OwnedItem> items;
  items.reserve(set.units.size());
  for (const size_t i : set.units) {
    const Unit& unit = units[i];
    items.push_back({.cost = unit.flops,
                     .memory_bytes = unit.count() * kMuonStateBytesPerElement,
                     .name = specs[static_cast<size_t>(unit.parameter)].name});
  }
  return items;
}

absl::StatusOr<Owners> AssignInOrder(const std::vector<ParameterSpec>& specs,
                                     const std::vector<Unit>& units,
                                     const std::vector<const UnitSet*>& order,
                                     int64_t memory_bytes_max,
                                     Carried carried) {
  Owners result = {.owners = std::vector<int32_t>(units.size(), 0)};
  for (const UnitSet* set : order) {
    const std::vector<OwnedItem> items = ItemsOf(specs, units, *set);
    const absl::StatusOr<std::vector<int32_t>> owners = AssignOwners(
        items, GroupRanks(*set->groups, carried), memory_bytes_max);
    if (!owners.ok()) return owners.status();
    std::vector<OwnedItem> added(static_cast<size_t>(set->groups->group_size));
    for (size_t i = 0; i < items.size(); ++i) {
      const int32_t owner = (*owners)[i];
      result.owners[set->units[i]] = owner;
      added[static_cast<size_t>(owner)].cost += items[i].cost;
      added[static_cast<size_t>(owner)].memory_bytes += items[i].memory_bytes;
    }
    for (size_t rank = 0; rank < carried.loads.size(); ++rank) {
      const OwnedItem& more =
          added[static_cast<size_t>(set->groups->group_rank[rank])];
      carried.loads[rank] += more.cost;
      carried.memory_bytes[rank] += more.memory_bytes;
    }
  }
  result.heaviest_load =
      *std::max_element(carried.loads.begin(), carried.loads.end());
  return result;
}

// The most that any rank has of the element-wise state, at any bucket size:
// chunks are dealt evenly over the ranks of a group.
int64_t ElementWiseStateBytes(const std::vector<ParameterSpec>& specs,
                              const Classification& classification) {
  std::vector<int64_t> chunks(classification.groups.size(), 0);
  for (size_t p = 0; p < specs.size(); ++p) {
    if (specs[p].rule == Rule::kMuon) continue;
    const size_t bucket_class =
        static_cast<size_t>(classification.class_of_parameter[p]);
    const size_t groups =
        static_cast<size_t>(classification.groups_of_class[bucket_class]);
    chunks[groups] += (ElementCount(specs[p]) + kChunkCount - 1) / kChunkCount;
  }
  int64_t bytes = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const int64_t size = classification.groups[i].group_size;
    bytes += (chunks[i] + size - 1) / size * kChunkCount *
             kAdamWStateBytesPerElement;
  }
  return bytes;
}

// What each rank uses before it owns a unit.
absl::StatusOr<int64_t> BaseMemoryBytes(const std::vector<ParameterSpec>& specs,
                                        const Classification& classification,
                                        const std::vector<Unit>& units,
                                        int64_t memory_bytes_max) {
  const int64_t state_bytes = ElementWiseStateBytes(specs, classification);
  int64_t scratch_bytes = 0;
  size_t largest = 0;  // Parameter of the unit with the most scratch.
  for (const Unit& unit : units) {
    if (unit.scratch_bytes <= scratch_bytes) continue;
    scratch_bytes = unit.scratch_bytes;
    largest = static_cast<size_t>(unit.parameter);
  }
  const int64_t bytes = state_bytes + scratch_bytes;
  if (memory_bytes_max == 0 || bytes <= memory_bytes_max) return bytes;
  return absl::ResourceExhaustedError(absl::StrCat(
      "option plan.rank_memory_bytes_max: rank 0, as each rank, needs ",
      state_bytes, " bytes of element-wise state and ", scratch_bytes,
      " of scratch (parameter \"", absl::CEscape(specs[largest].name),
      "\"), want at most ", memory_bytes_max));
}

}  // namespace

absl::Status AssignUnitOwners(const std::vector<ParameterSpec>& specs,
                              const Classification& classification,
                              int64_t rank_memory_bytes_max,
                              std::vector<Unit>& units) {
  const absl::StatusOr<int64_t> base_bytes =
      BaseMemoryBytes(specs, classification, units, rank_memory_bytes_max);
  if (!base_bytes.ok()) return base_bytes.status();
  const size_t rank_count = classification.groups.front().group_rank.size();
  const Carried carried = {
      .loads = std::vector<int64_t>(rank_count, 0),
      .memory_bytes = std::vector<int64_t>(rank_count, *base_bytes)};

  const std::vector<UnitSet> sets = MakeSets(classification, units);
  std::vector<const UnitSet*> order;
  for (const UnitSet& set : sets) order.push_back(&set);
  std::stable_sort(order.begin(), order.end(),
                   [](const UnitSet* a, const UnitSet* b) {
                     return a->groups->group_size > b->groups->group_size;
                   });
  absl::StatusOr<Owners> best =
      AssignInOrder(specs, units, order, rank_memory_bytes_max, carried);
  if (sets.size() > 1) {
    std::reverse(order.begin(), order.end());
    absl::StatusOr<Owners> other =
        AssignInOrder(specs, units, order, rank_memory_bytes_max, carried);
    if (other.ok() &&
        (!best.ok() || other->heaviest_load < best->heaviest_load)) {
      best = std::move(other);
    }
  }
  if (!best.ok()) {
    return absl::Status(best.status().code(),
                        absl::StrCat("option plan.rank_memory_bytes_max: ",
                                     best.status().message()));
  }
  for (size_t i = 0; i < units.size(); ++i) units[i].owner = best->owners[i];
  return absl::OkStatus();
}

}  // namespace muonshard
