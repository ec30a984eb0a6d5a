#include "tools/trainer/plan_command.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/data_type.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "optimizer/plan_report.h"
#include "optimizer/shapes/model_shapes.h"
#include "optimizer/shapes/shapes_file.h"
#include "tools/trainer/flags.h"
#include "tools/trainer/input_file.h"
#include "tools/trainer/plan_flags.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

struct PlanCommand {
  std::string model = "gpt2-124m";
  std::string shapes_path;
  std::string mesh = "sharding=8";
  int32_t lanes_per_node = 8;
  double bucket_mib = 25;
  int32_t hierarchy = 2;  // Index into kHierarchies.
  // Indices into kPrecisions; 0 keeps the model's own.
  int32_t precision = 0;
  int32_t gradient_precision = 0;
  PlanDetail detail;
};

struct NamedHierarchy {
  const char* name;
  Hierarchy hierarchy;
};
constexpr std::array<NamedHierarchy, 3> kHierarchies = {
    {{"on", Hierarchy::kOn},
     {"off", Hierarchy::kOff},
     {"auto", Hierarchy::kAuto}}};
constexpr std::array<const char*, 4> kPrecisions = {"model", "fp32", "bf16",
                                                    "fp16"};

// The type of this index in kPrecisions, which is not the first.
DataType TypeAt(int32_t index) {
  constexpr std::array kDataTypes = {DataType::kF32, DataType::kBF16,
                                     DataType::kF16};
  return kDataTypes[static_cast<size_t>(index) - 1];
}

void AddFlags(PlanCommand& command, FlagTable& table) {
  table.AddText("model", "NAME", absl::StrJoin(ModelNames(), ", "),
                &command.model);
  table.AddText("shapes", "FILE", "parameters in JSON, in place of a model",
                &command.shapes_path);
  table.AddText("mesh", "AXES", "axes of the ranks", &command.mesh);
  table.AddInteger("lanes-per-node", "ranks that share a host", 1, 1 << 20,
                   &command.lanes_per_node);
  AddBucketFlag(table, &command.bucket_mib);
  std::vector<std::string> hierarchies;
  for (const NamedHierarchy& each : kHierarchies) {
    hierarchies.emplace_back(each.name);
  }
  table.AddChoice("hierarchical", "two levels for groups on several hosts",
                  hierarchies, &command.hierarchy);
  const std::vector<std::string> precisions(kPrecisions.begin(),
                                            kPrecisions.end());
  table.AddChoice("precision", "of the parameters", precisions,
                  &command.precision);
  table.AddChoice("gradient-precision", "of the gradients", precisions,
                  &command.gradient_precision);
  table.AddSwitch("buckets", "list every bucket", &command.detail.buckets);
  table.AddSwitch("owners", "list the owner of every matrix",
                  &command.detail.owners);
  table.AddSwitch("parameters", "list the divisor of every parameter",
                  &command.detail.parameters);
  table.AddSwitch("all-ranks", "list every rank, not only the heaviest",
                  &command.detail.all_ranks);
}

absl::StatusOr<std::vector<ParameterSpec>> SpecsOf(const PlanCommand& command,
                                                   const Mesh& mesh) {
  absl::StatusOr<std::vector<ParameterSpec>> specs =
      [&]() -> absl::StatusOr<std::vector<ParameterSpec>> {
    if (command.shapes_path.empty()) {
      return ModelParameters(command.model, mesh);
    }
    absl::StatusOr<std::string> text =
        ReadFile("--shapes", command.shapes_path);
    if (!text.ok()) return text.status();
    return ParseShapes(*text);
  }();
  if (!specs.ok()) return specs.status();
  for (ParameterSpec& spec : *specs) {
    if (command.precision > 0) spec.dtype = TypeAt(command.precision);
    if (command.gradient_precision > 0) {
      spec.gradient_dtype = TypeAt(command.gradient_precision);
    }
  }
  return specs;
}

absl::StatusOr<std::string> ReportOf(const PlanCommand& command,
                                     const Mesh& mesh) {
  const absl::StatusOr<std::vector<ParameterSpec>> specs =
      SpecsOf(command, mesh);
  if (!specs.ok()) return specs.status();
  std::vector<std::string> hosts;
  for (int32_t rank = 0; rank < mesh.size(); ++rank) {
    hosts.push_back(absl::StrCat("host", rank / command.lanes_per_node));
  }
  OptimizerOptions options;
  options.plan.bucket_bytes_max = BucketBytesMax(command.bucket_mib);
  options.plan.hierarchy =
      kHierarchies[static_cast<size_t>(command.hierarchy)].hierarchy;
  const absl::StatusOr<Plan> plan =
      Plan::Create(*specs, mesh, HostMap::FromHostIds(hosts), options);
  if (!plan.ok()) return plan.status();
  return PlanReport(*plan, command.detail);
}

}  // namespace

int PlanMain(std::span<const absl::string_view> arguments, std::ostream& out,
             std::ostream& errors) {
  PlanCommand command;
  FlagTable table;
  AddFlags(command, table);
  if (const absl::Status s = table.Parse(arguments); !s.ok()) {
    errors << "plan: " << s.message() << "\n";
    return 2;
  }
  if (table.help_wanted()) {
    out << "Shows how a model would be sharded.\n\nFlags [default]:\n"
        << table.Help();
    return 0;
  }
  const absl::StatusOr<Mesh> mesh = MeshOfFlag(command.mesh);
  if (!mesh.ok()) {
    errors << "plan: " << mesh.status().message() << "\n";
    return 2;
  }
  const absl::StatusOr<std::string> report = ReportOf(command, *mesh);
  if (!report.ok()) {
    errors << "plan: " << report.status().message() << "\n";
    return 1;
  }
  out << *report;
  return 0;
}

}  // namespace muonshard
