// Time to make a plan, from declared parameters to the lines that ranks
// compare. Every rank of a job does this once, at start.
//
// Axes       model x ranks; deep x ranks x parameters. 8 ranks a host.
// Reports    imbalance, buckets, parameters per second
// Not shown  the exchange of fingerprints
// Goal       under 1 s for 1,024 ranks and 10,000 parameters

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "optimizer/options.h"
#include "optimizer/parameter_spec.h"
#include "optimizer/plan.h"
#include "optimizer/shapes/model_shapes.h"
#include "topology/host_map.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

constexpr int64_t kLanes = 8;

void PlanAgainAndAgain(benchmark::State& state,
                       const std::vector<ParameterSpec>& specs, int64_t ranks) {
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(absl::StrCat("dp=", ranks));
  if (!mesh.ok()) {
    state.SkipWithError(mesh.status().ToString().c_str());
    return;
  }
  std::vector<std::string> host_ids;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    host_ids.push_back(absl::StrCat("host", rank / kLanes));
  }
  const HostMap hosts = HostMap::FromHostIds(host_ids);
  uint64_t fingerprint = 0;
  for (auto _ : state) {
    const absl::StatusOr<Plan> plan = Plan::Create(specs, *mesh, hosts, {});
    if (!plan.ok()) {
      state.SkipWithError(plan.status().ToString().c_str());
      return;
    }
    fingerprint ^= plan->Fingerprint();
    state.counters["imbalance"] = plan->imbalance();
    state.counters["buckets"] = static_cast<double>(plan->buckets.size());
  }
  benchmark::DoNotOptimize(fingerprint);
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(specs.size()));
}

void BM_PlanOfModel(benchmark::State& state) {
  const std::vector<std::string> names = ModelNames();
  const std::string& name = names[static_cast<size_t>(state.range(0))];
  state.SetLabel(name);
  PlanAgainAndAgain(state, *ModelParameters(name), state.range(1));
}
BENCHMARK(BM_PlanOfModel)
    ->ArgNames({"model", "ranks"})
    ->ArgsProduct({{0, 1, 2}, {8, 64, 256, 1024}})
    ->Unit(benchmark::kMillisecond);

// A GPT has 12 parameters a layer and 4 around them.
void BM_PlanOfDeepModel(benchmark::State& state) {
  const int64_t layers = (state.range(1) - 4 + 11) / 12;
  const std::vector<ParameterSpec> specs = GptParameters(
      {.layers = layers, .width = 1024, .context = 2048, .vocabulary = 50257});
  PlanAgainAndAgain(state, specs, state.range(0));
}
BENCHMARK(BM_PlanOfDeepModel)
    ->ArgNames({"ranks", "parameters"})
    ->ArgsProduct({{64, 1024}, {1000, 10000}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace muonshard
