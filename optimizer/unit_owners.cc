#include "optimizer/unit_owners.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "optimizer/bucket.h"
#include "optimizer/owner_assignment.h"

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
  for (const std::vector<Rank>& group : groups.ranks.groups) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      const size_t rank = static_cast<size_t>(ToInt(group[i]));
      ranks[i].load = std::max(ranks[i].load, carried.loads[rank]);
      ranks[i].memory_bytes =
          std::max(ranks[i].memory_bytes, carried.memory_bytes[rank]);
    }
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
                     .memory_bytes = unit.state_bytes,
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
    for (const std::vector<Rank>& group : set->groups->ranks.groups) {
      for (size_t i = 0; i < group.size(); ++i) {
        const size_t rank = static_cast<size_t>(ToInt(group[i]));
        carried.loads[rank] += added[i].cost;
        carried.memory_bytes[rank] += added[i].memory_bytes;
      }
    }
  }
  result.heaviest_load =
      *std::max_element(carried.loads.begin(), carried.loads.end());
  return result;
}

// What each rank of one set uses before it owns a unit.
struct BaseMemory {
  int64_t state_bytes = 0;
  int64_t scratch_bytes = 0;
  int32_t largest = 0;  // Parameter of the unit with the most scratch.
};

// By set. Of the element-wise state, the most that any rank has at any bucket
// size: chunks are dealt evenly over the ranks of a group.
std::vector<BaseMemory> BaseMemoryOfSets(
    const std::vector<ParameterSpec>& specs,
    const Classification& classification, const OptimizerOptions& options,
    const std::vector<Unit>& units) {
  const auto set_of = [&classification](size_t parameter) {
    return static_cast<size_t>(
        classification.groups_of_class[static_cast<size_t>(
            classification.class_of_parameter[parameter])]);
  };
  struct Chunks {
    int64_t count = 0;
    int64_t bytes_per_element = 0;
  };
  std::vector<Chunks> chunks(classification.groups.size());
  std::vector<BaseMemory> sets(chunks.size());
  for (size_t p = 0; p < specs.size(); ++p) {
    if (specs[p].rule == Rule::kMuon) continue;
    Chunks& of_set = chunks[set_of(p)];
    of_set.count += (ElementCount(specs[p]) + kChunkCount - 1) / kChunkCount;
    of_set.bytes_per_element =
        std::max(of_set.bytes_per_element,
                 StateBytesPerElement(specs[p].rule, specs[p].dtype,
                                      options.master_weights));
  }
  for (size_t i = 0; i < sets.size(); ++i) {
    const int64_t size = classification.groups[i].group_size;
    sets[i].state_bytes = (chunks[i].count + size - 1) / size * kChunkCount *
                          chunks[i].bytes_per_element;
  }
  for (const Unit& unit : units) {
    BaseMemory& set = sets[set_of(static_cast<size_t>(unit.parameter))];
    if (unit.scratch_bytes <= set.scratch_bytes) continue;
    set.scratch_bytes = unit.scratch_bytes;
    set.largest = unit.parameter;
  }
  return sets;
}

// By rank.
absl::StatusOr<std::vector<int64_t>> BaseMemoryBytes(
    const std::vector<ParameterSpec>& specs,
    const Classification& classification, const OptimizerOptions& options,
    const std::vector<Unit>& units) {
  const std::vector<BaseMemory> sets =
      BaseMemoryOfSets(specs, classification, options, units);
  const size_t rank_count = classification.groups.front().ranks.place.size();
  const int64_t bytes_max = options.plan.rank_memory_bytes_max;
  std::vector<int64_t> bytes;
  for (size_t rank = 0; rank < rank_count; ++rank) {
    BaseMemory own;
    for (size_t i = 0; i < sets.size(); ++i) {
      if (!classification.groups[i].ranks.has(Rank(rank))) continue;
      own.state_bytes += sets[i].state_bytes;
      if (sets[i].scratch_bytes <= own.scratch_bytes) continue;
      own.scratch_bytes = sets[i].scratch_bytes;
      own.largest = sets[i].largest;
    }
    bytes.push_back(own.state_bytes + own.scratch_bytes);
    if (bytes_max == 0 || bytes.back() <= bytes_max) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "option plan.rank_memory_bytes_max: rank ", rank, " needs ",
        own.state_bytes, " bytes of element-wise state and ", own.scratch_bytes,
        " of scratch (parameter \"",
        absl::CEscape(specs[static_cast<size_t>(own.largest)].name),
        "\"), want at most ", bytes_max));
  }
  return bytes;
}

}  // namespace

absl::Status AssignUnitOwners(const std::vector<ParameterSpec>& specs,
                              const Classification& classification,
                              const OptimizerOptions& options,
                              std::vector<Unit>& units) {
  absl::StatusOr<std::vector<int64_t>> base_bytes =
      BaseMemoryBytes(specs, classification, options, units);
  if (!base_bytes.ok()) return base_bytes.status();
  const Carried carried = {.loads = std::vector<int64_t>(base_bytes->size(), 0),
                           .memory_bytes = *std::move(base_bytes)};
  const int64_t bytes_max = options.plan.rank_memory_bytes_max;

  const std::vector<UnitSet> sets = MakeSets(classification, units);
  std::vector<const UnitSet*> order;
  for (const UnitSet& set : sets) order.push_back(&set);
  std::stable_sort(
      order.begin(), order.end(), [](const UnitSet* a, const UnitSet* b) {
        return std::pair(a->groups->group_size,
                         a->groups->ranks.groups.size()) >
               std::pair(b->groups->group_size, b->groups->ranks.groups.size());
      });
  absl::StatusOr<Owners> best =
      AssignInOrder(specs, units, order, bytes_max, carried);
  if (sets.size() > 1) {
    std::reverse(order.begin(), order.end());
    absl::StatusOr<Owners> other =
        AssignInOrder(specs, units, order, bytes_max, carried);
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
