#include "optimizer/plan_report.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "collectives/data_type.h"
#include "optimizer/plan.h"
#include "optimizer/plan_report_detail.h"

namespace muonshard {
namespace {

// Of more ranks, only the heaviest are listed.
constexpr size_t kListedRanksMax = 16;

double Mebibytes(double bytes) { return bytes / (1 << 20); }
double Mebibytes(int64_t bytes) {
  return Mebibytes(static_cast<double>(bytes));
}

double Gigaflops(double flops) { return flops * 1e-9; }

// What the parameters of one class, or of all, come to.
struct Totals {
  int64_t muon_parameters = 0;
  int64_t units = 0;
  int64_t muon_elements = 0;
  int64_t adamw_parameters = 0;
  int64_t adamw_elements = 0;
  int64_t buckets = 0;
};

void Add(const Plan& plan, const Bucket& bucket, Totals& totals) {
  ++totals.buckets;
  for (const Piece& piece : bucket.pieces) totals.units += piece.rows > 0;
  for (const int32_t p : bucket.parameters) {
    const ParameterSpec& spec = plan.specs[static_cast<size_t>(p)];
    if (spec.rule == Rule::kMuon) {
      ++totals.muon_parameters;
      totals.muon_elements += ElementCount(spec);
    } else {
      ++totals.adamw_parameters;
      totals.adamw_elements += ElementCount(spec);
    }
  }
}

std::string AxesText(const std::vector<std::string>& axes) {
  return axes.empty() ? "-" : absl::StrJoin(axes, ",");
}

// The axes over which other values live: those that nothing is reduced over
// and that hold no duplicates.
std::string ApartAxesText(const Plan& plan, const BucketClass& bucket_class) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : plan.mesh.axes()) {
    const auto lists = [&axis](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), axis.name) != names.end();
    };
    if (lists(bucket_class.shard_axes) || lists(bucket_class.replicate_axes) ||
        lists(bucket_class.partial_axes) ||
        lists(bucket_class.duplicate_axes)) {
      continue;
    }
    axes.push_back(axis.name);
  }
  return AxesText(axes);
}

// "pp=0,3" where parameters live at these coordinates alone.
std::string CoordinatesText(const BucketClass& bucket_class) {
  if (bucket_class.coordinates.empty()) return "all";
  return absl::StrJoin(bucket_class.coordinates, " ",
                       [](std::string* out, const auto& listed) {
                         absl::StrAppend(out, listed.first, "=",
                                         absl::StrJoin(listed.second, ","));
                       });
}

void AppendSummary(const Plan& plan, std::string* out) {
  Totals all;
  for (const Bucket& bucket : plan.buckets) Add(plan, bucket, all);
  const std::string mesh = plan.mesh.ToString();
  absl::StrAppendFormat(out, "%-12s%d on %d host%s, mesh %s\n", "ranks",
                        plan.mesh.size(), plan.hosts.host_count(),
                        plan.hosts.host_count() == 1 ? "" : "s",
                        mesh.empty() ? "without axes" : mesh);
  absl::StrAppendFormat(out,
                        "%-12s%d parameters in %d units, %d elements: one "
                        "owner for each unit\n",
                        "muon", all.muon_parameters, all.units,
                        all.muon_elements);
  absl::StrAppendFormat(out,
                        "%-12s%d parameters, %d elements: cut evenly, by "
                        "chunks of %d\n",
                        "adamw", all.adamw_parameters, all.adamw_elements,
                        kChunkCount);
  absl::StrAppendFormat(out, "%-12s%d in %d parts, padding %.3f %%\n",
                        "buckets", all.buckets, plan.parts.size(),
                        100 * plan.padding_fraction);
  absl::StrAppendFormat(out, "%-12s%d, of every gradient sum\n", "divisor",
                        plan.divisors.front());
}

void AppendClasses(const Plan& plan, std::string* out) {
  std::vector<Totals> totals(plan.classes.size());
  for (const Bucket& bucket : plan.buckets) {
    Add(plan, bucket, totals[static_cast<size_t>(bucket.bucket_class)]);
  }
  absl::StrAppendFormat(
      out, "\n%5s  %-20s %-11s %-9s %-9s %-9s %-9s %6s %6s %9s %7s %7s %7s\n",
      "class", "sharded", "replicated", "partial", "duplicate", "apart", "at",
      "ranks", "copies", "grad/par", "units", "adamw", "buckets");
  for (size_t i = 0; i < totals.size(); ++i) {
    const BucketClass& bucket_class = plan.classes[i];
    const std::string types =
        absl::StrCat(DataTypeName(bucket_class.gradient_dtype), "/",
                     DataTypeName(bucket_class.parameter_dtype));
    absl::StrAppendFormat(
        out, "%5d  %-20s %-11s %-9s %-9s %-9s %-9s %6d %6d %9s %7d %7d %7d%s\n",
        i, AxesText(bucket_class.shard_axes),
        AxesText(bucket_class.replicate_axes),
        AxesText(bucket_class.partial_axes),
        AxesText(bucket_class.duplicate_axes),
        ApartAxesText(plan, bucket_class), CoordinatesText(bucket_class),
        bucket_class.group_size, bucket_class.replica_size, types,
        totals[i].units, totals[i].adamw_parameters, totals[i].buckets,
        bucket_class.sync_only ? "  reduced by Finish alone" : "");
  }
}

// How the groups of several ranks reduce and gather.
void AppendGroups(const Plan& plan, std::string* out) {
  if (plan.spreads.empty()) return;
  absl::StrAppendFormat(out, "\n%5s  %-10s %6s  %s\n", "class", "over",
                        "groups", "levels");
  for (const GroupSpread& spread : plan.spreads) {
    const std::string levels =
        spread.levels.hierarchical()
            ? absl::StrCat("two: ", spread.levels.hosts, " hosts of ",
                           spread.levels.lanes, " ranks")
            : absl::StrCat("one: ", spread.flat_because);
    absl::StrAppendFormat(out, "%5d  %-10s %6d  %s\n", spread.bucket_class,
                          spread.of_replicas ? "replicas" : "shards",
                          spread.group_count, levels);
  }
}

// What the mesh sends in a step, and what it would send otherwise.
void AppendWire(const Plan& plan, std::string* out) {
  absl::StrAppendFormat(out, "\n%-22s %14s %14s %14s\n", "MiB sent in a step",
                        "busiest rank", "all ranks", "across hosts");
  const auto row = [&plan, out](const char* scheme,
                                WireBytes RankLoad::*bytes) {
    int64_t busiest = 0;
    double sent = 0;
    double across = 0;
    for (const RankLoad& load : plan.rank_load) {
      const WireBytes& wire = load.*bytes;
      busiest = std::max(busiest, wire.sent);
      sent += static_cast<double>(wire.sent);
      across += static_cast<double>(wire.across_hosts);
    }
    absl::StrAppendFormat(out, "%-22s %14.3f %14.3f %14.3f\n", scheme,
                          Mebibytes(static_cast<double>(busiest)),
                          Mebibytes(sent), Mebibytes(across));
  };
  row("as planned", &RankLoad::planned);
  row("flat, direct", &RankLoad::flat_direct);
  row("flat, ring", &RankLoad::flat_ring);
}

double FlopsOfAll(const Plan& plan) {
  double sum = 0;
  for (const RankLoad& load : plan.rank_load) {
    sum += static_cast<double>(load.newton_schulz_flops);
  }
  return sum;
}

// Heaviest first.
std::vector<size_t> RanksByLoad(const Plan& plan) {
  std::vector<size_t> ranks(plan.rank_load.size());
  std::iota(ranks.begin(), ranks.end(), size_t{0});
  std::stable_sort(ranks.begin(), ranks.end(), [&plan](size_t a, size_t b) {
    return plan.rank_load[a].newton_schulz_flops >
           plan.rank_load[b].newton_schulz_flops;
  });
  return ranks;
}

void AppendBalance(const Plan& plan, double flops_of_all, std::string* out) {
  if (flops_of_all == 0) return;
  const double heaviest = static_cast<double>(
      plan.rank_load[RanksByLoad(plan).front()].newton_schulz_flops);
  const double mean = flops_of_all / static_cast<double>(plan.rank_load.size());
  absl::StrAppendFormat(out,
                        "\nNewton-Schulz GFLOP a step: heaviest rank %.6g, "
                        "mean %.6g; imbalance %.4f\n",
                        Gigaflops(heaviest), Gigaflops(mean), plan.imbalance());
  if (plan.heaviest_unit.empty()) return;
  absl::StrAppendFormat(
      out,
      "Whole matrices cannot bring the heaviest rank below %.6g GFLOP, %.2f "
      "times the mean, because of matrices like \"%s\".\n",
      Gigaflops(static_cast<double>(plan.whole_unit_bound)),
      static_cast<double>(plan.whole_unit_bound) / mean,
      absl::CEscape(plan.heaviest_unit));
}

void AppendRanks(const Plan& plan, double flops_of_all, bool all,
                 std::string* out) {
  std::vector<size_t> ranks = RanksByLoad(plan);
  const size_t listed =
      all ? ranks.size() : std::min(ranks.size(), kListedRanksMax);
  ranks.resize(listed);
  std::sort(ranks.begin(), ranks.end());
  absl::StrAppendFormat(
      out, "\n%6s %12s %8s %10s %10s %10s %18s %10s %10s %10s\n", "rank",
      "NS GFLOP", "share %", "state MiB", "buffers", "NS scratch",
      "hierarchy scratch", "reduce", "gather", "replicate");
  for (const size_t rank : ranks) {
    const RankLoad& load = plan.rank_load[rank];
    const double flops = static_cast<double>(load.newton_schulz_flops);
    absl::StrAppendFormat(
        out,
        "%6d %12.6g %8.3f %10.3f %10.3f %10.3f %18.3f %10.3f %10.3f %10.3f\n",
        rank, Gigaflops(flops),
        flops_of_all > 0 ? 100 * flops / flops_of_all : 0.0,
        Mebibytes(load.state_bytes), Mebibytes(load.buffer_bytes),
        Mebibytes(load.scratch_bytes), Mebibytes(load.hierarchy_scratch_bytes),
        Mebibytes(load.reduce_bytes), Mebibytes(load.gather_bytes),
        Mebibytes(load.replicate_bytes));
  }
  if (listed < plan.rank_load.size()) {
    absl::StrAppend(out, "The ", listed, " heaviest of ", plan.rank_load.size(),
                    " ranks.\n");
  }
}

}  // namespace

std::string PlanReport(const Plan& plan, const PlanDetail& detail) {
  std::string out;
  AppendSummary(plan, &out);
  AppendClasses(plan, &out);
  AppendGroups(plan, &out);
  const double flops_of_all = FlopsOfAll(plan);
  AppendBalance(plan, flops_of_all, &out);
  AppendWire(plan, &out);
  AppendRanks(plan, flops_of_all, detail.all_ranks, &out);
  if (detail.parameters) AppendParameters(plan, &out);
  if (detail.buckets) AppendBuckets(plan, &out);
  if (detail.owners) AppendOwners(plan, &out);
  return out;
}

}  // namespace muonshard
