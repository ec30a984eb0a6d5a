#include "optimizer/unsharded/gradient_places.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
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

// How the ranks of one copy are folded.
struct CopyFold {
  std::vector<Group> groups;
  std::vector<Group> replicas;  // One per place in the groups.
  std::vector<int32_t> group_lanes;
  std::vector<int32_t> replica_lanes;

  bool operator==(const CopyFold&) const = default;
};

// `groups` by positions in the ascending ranks of the copy, so that copies can
// be compared.
std::vector<Group> Numbered(std::vector<Group> groups, const Group& ascending) {
  for (Group& group : groups) {
    for (Rank& rank : group) {
      const auto found =
          std::lower_bound(ascending.begin(), ascending.end(), rank);
      rank = Rank(static_cast<int32_t>(found - ascending.begin()));
    }
  }
  return groups;
}

CopyFold Numbered(const CopyFold& fold) {
  Group ascending;
  for (const Group& group : fold.groups) {
    ascending.insert(ascending.end(), group.begin(), group.end());
  }
  std::sort(ascending.begin(), ascending.end());
  return {.groups = Numbered(fold.groups, ascending),
          .replicas = Numbered(fold.replicas, ascending),
          .group_lanes = fold.group_lanes,
          .replica_lanes = fold.replica_lanes};
}

class Folder {
 public:
  // Otherwise in rank order, and flat.
  Folder(const HostMap& hosts, Hierarchy hierarchy, bool by_host)
      : hosts_(hosts), hierarchy_(hierarchy), by_host_(by_host) {}

  CopyFold Fold(const Copy& copy) const {
    const auto before = [this](Rank a, Rank b) { return Before(a, b); };
    CopyFold fold;
    for (const auto& [replica, ranks] : copy) {
      fold.groups.push_back(ranks);
      std::sort(fold.groups.back().begin(), fold.groups.back().end(), before);
    }
    std::sort(fold.groups.begin(), fold.groups.end(),
              [this](const Group& a, const Group& b) {
                return Before(a.front(), b.front());
              });
    for (const Group& group : fold.groups) {
      fold.group_lanes.push_back(LanesOf(group));
    }
    for (size_t i = 0; i < fold.groups.front().size(); ++i) {
      Group replicas;
      for (const Group& group : fold.groups) replicas.push_back(group[i]);
      std::sort(replicas.begin(), replicas.end(), before);
      fold.replica_lanes.push_back(LanesOf(replicas));
      fold.replicas.push_back(std::move(replicas));
    }
    return fold;
  }

 private:
  bool Before(Rank a, Rank b) const {
    if (!by_host_) return a < b;
    return std::pair(hosts_.host(a), hosts_.lane(a)) <
           std::pair(hosts_.host(b), hosts_.lane(b));
  }

  // 0: flat.
  int32_t LanesOf(const Group& ranks) const {
    if (!by_host_ || hierarchy_ == Hierarchy::kOff) return 0;
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
  const bool by_host_;
};

// Whether copies fold their equal gradients to equal bits.
bool FoldAlike(const std::map<Coordinates, Copies>& places,
               const Folder& folder) {
  for (const auto& [coordinates, copies] : places) {
    const CopyFold first = Numbered(folder.Fold(copies.begin()->second));
    for (const auto& [duplicate, copy] : copies) {
      if (!(Numbered(folder.Fold(copy)) == first)) return false;
    }
  }
  return true;
}

absl::Status SetOrder(CopyFold fold, GradientPlace& place) {
  for (size_t i = 0; i < fold.replicas.size(); ++i) {
    for (size_t r = 0; r < fold.groups.size(); ++r) {
      if (fold.replicas[i][r] == fold.groups[r][i]) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "replicas at place ", i,
          " of their groups come in another order than at place 0"));
    }
    if (fold.replica_lanes[i] != fold.replica_lanes[0]) {
      return absl::FailedPreconditionError(
          absl::StrCat("replicas at place ", i, " of their groups have ",
                       fold.replica_lanes[i], " lanes, those at place 0 have ",
                       fold.replica_lanes[0]));
    }
  }
  place.groups = std::move(fold.groups);
  place.group_lanes = std::move(fold.group_lanes);
  place.replica_lanes = fold.replica_lanes[0];
  return absl::OkStatus();
}

std::vector<Rank> DuplicatesIn(const Copies& copies) {
  std::vector<Rank> duplicates;
  for (auto copy = std::next(copies.begin()); copy != copies.end(); ++copy) {
    for (const auto& [replica, ranks] : copy->second) {
      duplicates.insert(duplicates.end(), ranks.begin(), ranks.end());
    }
  }
  std::sort(duplicates.begin(), duplicates.end());
  return duplicates;
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
  std::vector<GradientPlace> places;
  for (size_t p = 0; p < specs.size(); ++p) {
    const auto arranged = Arrange(specs[p], mesh);
    const bool by_host =
        FoldAlike(arranged, Folder(hosts, hierarchy, /*by_host=*/true));
    const Folder folder(hosts, hierarchy, by_host);
    for (const auto& [coordinates, copies] : arranged) {
      GradientPlace place = {
          .parameter = static_cast<int32_t>(p),
          .coordinates = NameCoordinates(specs[p], mesh, coordinates),
          .divisor = divisor,
          .duplicates = DuplicatesIn(copies)};
      const absl::Status s =
          SetOrder(folder.Fold(copies.begin()->second), place);
      if (!s.ok()) {
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
