#include "collectives/runtime/runtime_contract.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "collectives/runtime/sim_runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "gtest/gtest.h"

namespace muonshard {
namespace {

void RunOnThreads(const RuntimeProgram& program) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  program(*runtime);
}

void RunOnSim(const RuntimeProgram& program) {
  constexpr uint64_t kSeeds = 20;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::unique_ptr<SimRuntime> runtime =
        SimRuntime::Create({.seed = seed});
    const absl::Status status = runtime->Run([&] { program(*runtime); });
    EXPECT_TRUE(status.ok()) << "seed " << seed << ": " << status;
  }
}

std::string CaseName(const ::testing::TestParamInfo<RuntimeCase>& tested) {
  return tested.param.name;
}

INSTANTIATE_TEST_SUITE_P(Threads, RuntimeContract,
                         ::testing::Values(RuntimeCase{"Threads",
                                                       &RunOnThreads}),
                         CaseName);

INSTANTIATE_TEST_SUITE_P(Sim, RuntimeContract,
                         ::testing::Values(RuntimeCase{"Sim", &RunOnSim}),
                         CaseName);

}  // namespace
}  // namespace muonshard
