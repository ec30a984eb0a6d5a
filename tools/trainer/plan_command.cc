#include "tools/trainer/plan_command.h"

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "optimizer/shapes/model_shapes.h"
#include "tools/trainer/flags.h"
#include "tools/trainer/plan_flags.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

struct PlanCommand {
  std::string model = "gpt2-124m";
  std::string mesh = "sharding=8";
  int32_t ranks_per_host = 8;
  double bucket_mib = 25;
};

void AddFlags(PlanCommand& command, FlagTable& table) {
  table.AddText("model", "NAME", absl::StrJoin(ModelNames(), ", "),
                &command.model);
  table.AddText("mesh", "AXES", "axes of the ranks", &command.mesh);
  table.AddInteger("ranks-per-host", "ranks that share a host", 1, 1 << 20,
                   &command.ranks_per_host);
  AddBucketFlag(table, &command.bucket_mib);
}

absl::StatusOr<std::string> ReportOf(const PlanCommand& command,
                                     const Mesh& mesh) {
  const absl::StatusOr<std::vector<ParameterSpec>> specs =
      ModelParameters(command.model);
  if (!specs.ok()) return specs.status();
  std::vector<std::string> hosts;
  for (int32_t rank = 0; rank < mesh.size(); ++rank) {
    hosts.push_back(absl::StrCat("host", rank / command.ranks_per_host));
  }
  OptimizerOptions options;
  options.plan.bucket_bytes_max = BucketBytesMax(command.bucket_mib);
  const absl::StatusOr<Plan> plan =
      Plan::Create(*specs, mesh, HostMap::FromHostIds(hosts), options);
  if (!plan.ok()) return plan.status();
  return plan->Report();
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
