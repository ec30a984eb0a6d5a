#include "optimizer/unsharded/gradient_places.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

using Coordinates = std::vector<int32_t>;
using Group = std::vector<Rank>;

// Groups by their coordinates over the replicate and partial axes.
using Copy = std::map<Coordinates, Group>;
// Copies by their coordinates over the duplicate axes.
using Copies = std::map<Coordinates, Copy>;

bool IsListed(const ParameterSpec& spec, const std::string& axis,
              int32_t coordinate) {
  const auto listed = spec.coordinates.find(axis);
  return listed == spec.coordinates.end() ||
         std::find(listed->second.begin(), listed->second.end(), coordinate) !=
             listed->second.end();
}

// The ranks that have `spec`, by the coordinates of their places.
std::map<Coordinates, Copies> Arrange(const ParameterSpec& spec,
                                      const Mesh& mesh) {
  std::map<Coordinates, Copies> places;
  for (int32_t r = 0; r < mesh.size(); ++r) {
    const Coordinates all = mesh.Coordinates(Rank(r));
    Coordinates place;
    Coordinates copy;
    Coordinates replica;
    bool lives_here = true;
    for (size_t a = 0; a < all.size(); ++a) {
      const std::string& axis = mesh.axes()[a].name;
      lives_here = lives_here && IsListed(spec, axis, all[a]);
      const AxisRole role = RoleOver(spec, axis);
      if (role == AxisRole::kDistinct || role == AxisRole::kSlice) {
        place.push_back(all[a]);
      } else if (role == AxisRole::kDuplicate) {
        copy.push_back(all[a]);
      } else if (role == AxisRole::kReplicate || role == AxisRole::kPartial) {
        replica.push_back(all[a]);
      }
    }
    if (lives_here) places[place][copy][replica].push_back(Rank(r));
  }
  return places;
}

std::map<std::string, int32_t> NameCoordinates(const ParameterSpec& spec,
                                               const Mesh& mesh,
                                               const Coordinates& place) {
  std::map<std::string, int32_t> named;
  auto next = place.begin();
  for (const MeshAxis& axis : mesh.axes()) {
    const AxisRole role = RoleOver(spec, axis.name);
    if (role == AxisRole::kDistinct || role == AxisRole::kSlice) {
      named[axis.name] = *next++;
    }
  }
  return named;
}

// An axis carries different data if any parameter is averaged over it, and
// then every gradient is a sum over its coordinates.
int64_t DivisorOf(const std::vector<ParameterSpec>& specs, const Mesh& mesh) {
  int64_t divisor = 1;
  for (const MeshAxis& axis : mesh.axes()) {
    const bool averaged =
        std::any_of(specs.begin(), specs.end(), [&axis](const auto& spec) {
          const AxisRole role = RoleOver(spec, axis.name);
          return role == AxisRole::kShard || role == AxisRole::kReplicate;
        });
    if (averaged) divisor *= axis.degree;
  }
  return divisor;
}

class Folds {
 public:
  Folds(const HostMap& hosts, Hierarchy hierarchy)
      : hosts_(hosts), hierarchy_(hierarchy) {}

  // Fills in the groups of `copy` and their levels, in fold order.
  absl::Status Fold(const Copy& copy, GradientPlace& place) const {
    std::vector<Group> groups;
    for (const auto& [replica, ranks] : copy) {
      groups.push_back(ranks);
      std::sort(groups.back().begin(), groups.back().end(),
                [this](Rank a, Rank b) { return Before(a, b); });
    }
    std::sort(groups.begin(), groups.end(),
              [this](const Group& a, const Group& b) {
                return Before(a.front(), b.front());
              });
    for (size_t i = 0; i < groups.front().size(); ++i) {
      Group replicas;
      for (const Group& group : groups) replicas.push_back(group[i]);
      if (!std::is_sorted(replicas.begin(), replicas.end(),
                          [this](Rank a, Rank b) { return Before(a, b); })) {
        return absl::FailedPreconditionError(absl::StrCat(
            "replicas at place ", i,
            " of their groups come in another order than at place 0"));
      }
      const int32_t lanes = LanesOf(replicas);
      if (i == 0) place.replica_lanes = lanes;
      if (lanes != place.replica_lanes) {
        return absl::FailedPreconditionError(absl::StrCat(
            "replicas at place ", i, " of their groups have ", lanes,
            " lanes, those at place 0 have ", place.replica_lanes));
      }
    }
    for (const Group& group : groups) {
      place.group_lanes.push_back(LanesOf(group));
    }
    place.groups = std::move(groups);
    return absl::OkStatus();
  }

 private:
  bool Before(Rank a, Rank b) const {
    return std::pair(hosts_.host(a), hosts_.lane(a)) <
           std::pair(hosts_.host(b), hosts_.lane(b));
  }

  // 0: flat.
  int32_t LanesOf(const Group& ranks) const {
    if (hierarchy_ == Hierarchy::kOff) return 0;
    std::map<int32_t, int32_t> members;  // By host.
    for (const Rank rank : ranks) ++members[hosts_.host(rank)];
    const int32_t lanes = members.begin()->second;
    const bool equal =
        std::all_of(members.begin(), members.end(),
                    [lanes](const auto& host) { return host.second == lanes; });
    return equal && members.size() > 1 && lanes > 1 ? lanes : 0;
  }

  const HostMap& hosts_;
  const Hierarchy hierarchy_;
};

absl::Status FoldCopies(const Copies& copies, const Folds& folds,
                        GradientPlace& place) {
  if (absl::Status s = folds.Fold(copies.begin()->second, place); !s.ok()) {
    return s;
  }
  for (auto copy = std::next(copies.begin()); copy != copies.end(); ++copy) {
    GradientPlace other;
    if (absl::Status s = folds.Fold(copy->second, other); !s.ok()) return s;
    if (other.group_lanes != place.group_lanes ||
        other.replica_lanes != place.replica_lanes) {
      return absl::FailedPreconditionError(
          "its duplicates are reduced in unlike levels");
    }
    for (const Group& group : other.groups) {
      place.duplicates.insert(place.duplicates.end(), group.begin(),
                              group.end());
    }
  }
  std::sort(place.duplicates.begin(), place.duplicates.end());
  return absl::OkStatus();
}

}  // namespace

std::vector<Rank> RanksOf(const GradientPlace& place) {
  std::vector<Rank> ranks = place.duplicates;
  for (const Group& group : place.groups) {
    ranks.insert(ranks.end(), group.begin(), group.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

absl::StatusOr<std::vector<GradientPlace>> GradientPlaces(
    const std::vector<ParameterSpec>& specs, const Mesh& mesh,
    const HostMap& hosts, Hierarchy hierarchy) {
  if (hosts.size() != mesh.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("hosts: want one for each of the ", mesh.size(),
                     " ranks of the mesh, got ", hosts.size()));
  }
  const int64_t divisor = DivisorOf(specs, mesh);
  const Folds folds(hosts, hierarchy);
  std::vector<GradientPlace> places;
  for (size_t p = 0; p < specs.size(); ++p) {
    for (const auto& [coordinates, copies] : Arrange(specs[p], mesh)) {
      GradientPlace place = {
          .parameter = static_cast<int32_t>(p),
          .coordinates = NameCoordinates(specs[p], mesh, coordinates),
          .divisor = divisor};
      if (absl::Status s = FoldCopies(copies, folds, place); !s.ok()) {
        return absl::Status(
            s.code(), absl::StrCat("parameter \"", absl::CEscape(specs[p].name),
                                   "\": ", s.message()));
      }
      places.push_back(std::move(place));
    }
  }
  return places;
}

}  // namespace muonshard
