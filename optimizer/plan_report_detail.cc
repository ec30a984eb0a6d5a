#include "optimizer/plan_report_detail.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "collectives/data_type.h"
#include "optimizer/bucket.h"
#include "optimizer/parameter_spec.h"

namespace muonshard {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrJoin(shape, "x");
}

// Roles other than kShard, which is that of most.
std::string RolesText(const Plan& plan, const ParameterSpec& spec) {
  std::vector<std::string> roles;
  for (const MeshAxis& axis : plan.mesh.axes()) {
    const AxisRole role = RoleOver(spec, axis.name);
    if (role == AxisRole::kShard) continue;
    std::string text = absl::StrCat(axis.name, ":", AxisRoleName(role));
    const auto listed = spec.coordinates.find(axis.name);
    if (listed != spec.coordinates.end()) {
      absl::StrAppend(&text, "{", absl::StrJoin(listed->second, ","), "}");
    }
    roles.push_back(std::move(text));
  }
  return roles.empty() ? "shard" : absl::StrJoin(roles, " ");
}

// By group rank: the ranks that are this in their groups of `bucket_class`.
std::vector<std::vector<Rank>> RanksByPlace(const Plan& plan,
                                            int32_t bucket_class) {
  const auto size = plan.classes[static_cast<size_t>(bucket_class)].group_size;
  std::vector<std::vector<Rank>> ranks(static_cast<size_t>(size));
  for (int32_t r = 0; r < plan.mesh.size(); ++r) {
    if (!plan.LivesOn(bucket_class, Rank{r})) continue;
    const std::vector<Rank> group = plan.GroupOf(bucket_class, Rank{r});
    const auto place = std::find(group.begin(), group.end(), Rank{r});
    ranks[static_cast<size_t>(place - group.begin())].push_back(Rank{r});
  }
  return ranks;
}

std::string RanksText(const std::vector<Rank>& ranks) {
  constexpr size_t kListedMax = 8;
  std::vector<int32_t> listed;
  for (const Rank rank : ranks) {
    if (listed.size() == kListedMax) break;
    listed.push_back(ToInt(rank));
  }
  return absl::StrCat(
      absl::StrJoin(listed, ","),
      ranks.size() > kListedMax
          ? absl::StrCat(" and ", ranks.size() - kListedMax, " more")
          : "");
}

}  // namespace

void AppendParameters(const Plan& plan, std::string* out) {
  std::vector<int32_t> class_of(plan.specs.size(), 0);
  for (const Bucket& bucket : plan.buckets) {
    for (const int32_t p : bucket.parameters) {
      class_of[static_cast<size_t>(p)] = bucket.bucket_class;
    }
  }
  absl::StrAppendFormat(out, "\n%5s  %-5s %-18s %5s %7s  %-24s %s\n", "index",
                        "rule", "shape", "class", "divisor", "roles", "name");
  for (size_t p = 0; p < plan.specs.size(); ++p) {
    const ParameterSpec& spec = plan.specs[p];
    absl::StrAppendFormat(out, "%5d  %-5s %-18s %5d %7d  %-24s %s\n", p,
                          std::string(RuleName(spec.rule)),
                          ShapeText(spec.shape), class_of[p], plan.divisors[p],
                          RolesText(plan, spec), absl::CEscape(spec.name));
  }
}

void AppendBuckets(const Plan& plan, std::string* out) {
  absl::StrAppendFormat(out, "\n%6s %5s %4s %11s %10s %12s %12s  %s\n",
                        "bucket", "class", "part", "parameters", "elements",
                        "min segment", "max segment", "first parameter");
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const Bucket& bucket = plan.buckets[b];
    const auto [least, most] = std::minmax_element(
        bucket.segments.begin(), bucket.segments.end(),
        [](const Segment& x, const Segment& y) { return x.count < y.count; });
    const auto first = static_cast<size_t>(bucket.parameters.front());
    absl::StrAppendFormat(out, "%6d %5d %4d %11d %10d %12d %12d  %s\n", b,
                          bucket.bucket_class, bucket.part,
                          bucket.parameters.size(), bucket.count, least->count,
                          most->count, absl::CEscape(plan.specs[first].name));
  }
}

void AppendOwners(const Plan& plan, std::string* out) {
  absl::StrAppendFormat(out, "\n%-40s %9s %6s %6s  %s\n", "matrix", "offset",
                        "rows", "cols", "owned by rank");
  std::vector<std::vector<std::string>> owners;  // By class and group rank.
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    owners.emplace_back();
    for (const auto& ranks : RanksByPlace(plan, static_cast<int32_t>(c))) {
      owners.back().push_back(RanksText(ranks));
    }
  }
  // Buckets are in backward order, and so are the parameters in them.
  for (auto bucket = plan.buckets.rbegin(); bucket != plan.buckets.rend();
       ++bucket) {
    const auto& of_class = owners[static_cast<size_t>(bucket->bucket_class)];
    for (const Piece& piece : bucket->pieces) {
      if (piece.rows == 0) continue;
      const auto p = static_cast<size_t>(piece.parameter);
      absl::StrAppendFormat(out, "%-40s %9d %6d %6d  %s\n",
                            absl::CEscape(plan.specs[p].name),
                            piece.parameter_offset, piece.rows, piece.cols,
                            of_class[static_cast<size_t>(piece.owner)]);
    }
  }
}

}  // namespace muonshard
