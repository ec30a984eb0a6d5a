#include "optimizer/plan_lines.h"

#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "optimizer/stable_hash.h"

namespace muonshard {
namespace {

// Seventeen digits tell any two doubles apart.
std::string Text(double value) { return absl::StrFormat("%.17g", value); }

template <typename T>
std::string ListText(const std::vector<T>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ","), "]");
}

std::string CoefficientsText(const MuonOptions& muon) {
  return absl::StrJoin(
      muon.custom_coefficients, ",",
      [](std::string* out, const NewtonSchulzCoefficients& set) {
        absl::StrAppend(out, "(", Text(set.a), ",", Text(set.b), ",",
                        Text(set.c), ")");
      });
}

template <typename Add>
void AddMuonOptions(const MuonOptions& muon, const Add& add) {
  add("muon.learning_rate", Text(muon.learning_rate));
  add("muon.weight_decay", Text(muon.weight_decay));
  add("muon.weight_decay_kind", WeightDecayName(muon.weight_decay_kind));
  add("muon.momentum", Text(muon.momentum));
  add("muon.nesterov", muon.nesterov ? 1 : 0);
  add("muon.coefficient_set", CoefficientSetOf(muon.coefficient_set).name);
  add("muon.custom_coefficients", CoefficientsText(muon));
  add("muon.polar_express_safety", Text(muon.polar_express_safety));
  add("muon.pre_scaling", PreScalingName(muon.pre_scaling));
  add("muon.newton_schulz_steps", muon.newton_schulz_steps);
  add("muon.iteration", NewtonSchulzIterationName(muon.iteration));
  add("muon.gram_restart_interval", muon.gram_restart_interval);
  add("muon.newton_schulz_dtype", DataTypeName(muon.newton_schulz_dtype));
  add("muon.epsilon", Text(muon.epsilon));
  add("muon.scale", MuonScaleName(muon.scale));
  add("muon.rms_factor", Text(muon.rms_factor));
  add("muon.row_normalization", muon.row_normalization ? 1 : 0);
  add("muon.row_beta2", Text(muon.row_beta2));
}

void AddOptions(const OptimizerOptions& options,
                std::vector<std::string>& lines) {
  const auto add = [&lines](absl::string_view name,
                            const absl::AlphaNum& value) {
    lines.push_back(absl::StrCat("option ", name, "=", value));
  };
  AddMuonOptions(options.muon, add);
  const AdamWOptions& adamw = options.adamw;
  add("adamw.learning_rate", Text(adamw.learning_rate));
  add("adamw.weight_decay", Text(adamw.weight_decay));
  add("adamw.beta1", Text(adamw.beta1));
  add("adamw.beta2", Text(adamw.beta2));
  add("adamw.epsilon", Text(adamw.epsilon));
  const PlanOptions& plan = options.plan;
  add("plan.bucket_bytes_max", plan.bucket_bytes_max);
  add("plan.buckets_per_part", plan.buckets_per_part);
  add("plan.rank_memory_bytes_max", plan.rank_memory_bytes_max);
  add("plan.hierarchy", HierarchyName(plan.hierarchy));
  add("overlap", options.overlap ? 1 : 0);
  add("gather", GatherModeName(options.gather));
  add("master_weights", options.master_weights ? 1 : 0);
  add("release_gradients", options.release_gradients ? 1 : 0);
  add("equality_check_interval", options.equality_check_interval);
  add("synchronous_errors", options.synchronous_errors ? 1 : 0);
  add("timeout", absl::FormatDuration(options.timeout));
}

// "0*8,1*8": runs of ranks on one host.
std::string HostsText(const HostMap& hosts) {
  std::string text;
  for (int32_t begin = 0; begin < hosts.size();) {
    const int32_t host = hosts.host(Rank(begin));
    int32_t end = begin + 1;
    while (end < hosts.size() && hosts.host(Rank(end)) == host) ++end;
    absl::StrAppend(&text, begin == 0 ? "" : ",", host, "*", end - begin);
    begin = end;
  }
  return text;
}

// With all axes of the mesh, so that kShard may be listed or implied.
std::string RolesText(const ParameterSpec& spec, const Mesh& mesh) {
  return absl::StrJoin(
      mesh.axes(), ",", [&spec](std::string* out, const MeshAxis& axis) {
        absl::StrAppend(out, axis.name, ":",
                        AxisRoleName(RoleOver(spec, axis.name)));
      });
}

// "[pp:0+3]": where the parameter lives not at all coordinates of an axis.
std::string CoordinatesText(const ParameterSpec& spec, const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes()) {
    const auto listed = spec.coordinates.find(axis.name);
    if (listed == spec.coordinates.end()) continue;
    if (listed->second.size() == static_cast<size_t>(axis.degree)) continue;
    axes.push_back(
        absl::StrCat(axis.name, ":", absl::StrJoin(listed->second, "+")));
  }
  return ListText(axes);
}

std::string ParameterLine(const Plan& plan, size_t index) {
  const ParameterSpec& spec = plan.specs[index];
  std::string line = absl::StrCat(
      "parameter ", index, " \"", absl::CEscape(spec.name),
      "\" shape=", ListText(spec.shape), " dtype=", DataTypeName(spec.dtype),
      " gradient_dtype=", DataTypeName(spec.gradient_dtype),
      " rule=", RuleName(spec.rule),
      " fan_out_dimension=", spec.fan_out_dimension,
      " blocks.dimension=", spec.blocks.dimension,
      " blocks.sizes=", ListText(spec.blocks.sizes),
      " blocks.padding=", spec.blocks.padding);
  absl::StrAppend(&line, " roles=[", RolesText(spec, plan.mesh),
                  "] coordinates=", CoordinatesText(spec, plan.mesh),
                  " blockwise=", spec.blockwise ? 1 : 0,
                  " gradient_mode=", GradientModeName(spec.gradient_mode),
                  " absent_gradient=", AbsentGradientName(spec.absent_gradient),
                  " check_ins=", CheckInsName(spec.check_ins),
                  " learning_rate_scale=", Text(spec.learning_rate_scale),
                  " schedule=\"", absl::CEscape(spec.schedule),
                  "\" weight_decay=", spec.weight_decay ? 1 : 0,
                  " divisor=", plan.divisors[index]);
  return line;
}

// Where it lives is in the lines of its parameters.
std::string ClassLine(const BucketClass& bucket_class, size_t index) {
  return absl::StrCat(
      "class ", index, " shard=", ListText(bucket_class.shard_axes),
      " replicate=", ListText(bucket_class.replicate_axes),
      " partial=", ListText(bucket_class.partial_axes),
      " duplicate=", ListText(bucket_class.duplicate_axes),
      " gradient_dtype=", DataTypeName(bucket_class.gradient_dtype),
      " parameter_dtype=", DataTypeName(bucket_class.parameter_dtype),
      " sync_only=", bucket_class.sync_only ? 1 : 0,
      " group_size=", bucket_class.group_size,
      " replica_size=", bucket_class.replica_size,
      " in_rank_order=", bucket_class.in_rank_order ? 1 : 0);
}

std::string SpreadLine(const GroupSpread& spread) {
  return absl::StrCat("levels of class ", spread.bucket_class,
                      spread.of_replicas ? " replicas" : " shards",
                      " groups=", spread.group_count,
                      " hosts=", spread.levels.hosts,
                      " lanes=", spread.levels.lanes);
}

// Places of all pieces as one hash: a bucket can have one for each rank.
std::string BucketLine(const Bucket& bucket, size_t index) {
  StableHasher places;
  for (const Piece& piece : bucket.pieces) {
    places.Add(static_cast<uint64_t>(piece.parameter));
    places.Add(static_cast<uint64_t>(piece.parameter_offset));
    places.Add(static_cast<uint64_t>(piece.bucket_offset));
    places.Add(static_cast<uint64_t>(piece.count));
    places.Add(static_cast<uint64_t>(piece.owner));
  }
  return absl::StrCat("bucket ", index, " class=", bucket.bucket_class,
                      " part=", bucket.part, " count=", bucket.count,
                      " segments=", bucket.segments.size(),
                      " pieces=", bucket.pieces.size(),
                      " places=", absl::Hex(places.value(), absl::kZeroPad16),
                      " parameters=", ListText(bucket.parameters));
}

}  // namespace

std::vector<std::string> DescribePlan(const Plan& plan,
                                      const OptimizerOptions& options) {
  std::vector<std::string> lines;
  AddOptions(options, lines);
  lines.push_back(absl::StrCat("mesh ", plan.mesh.ToString()));
  lines.push_back(absl::StrCat("hosts ", HostsText(plan.hosts)));
  for (size_t i = 0; i < plan.specs.size(); ++i) {
    lines.push_back(ParameterLine(plan, i));
  }
  for (size_t i = 0; i < plan.classes.size(); ++i) {
    lines.push_back(ClassLine(plan.classes[i], i));
  }
  for (const GroupSpread& spread : plan.spreads) {
    lines.push_back(SpreadLine(spread));
  }
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    lines.push_back(BucketLine(plan.buckets[i], i));
  }
  return lines;
}

}  // namespace muonshard
