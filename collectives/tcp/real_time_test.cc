#include "collectives/tcp/real_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "collectives/runtime/sim_runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

TEST(CheckRealTime, IsGoodWithThreads) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  EXPECT_THAT(CheckRealTime(*runtime, "it"), IsOk());
}

TEST(CheckRealTime, RefusesTheSimulatedRuntime) {
  const std::unique_ptr<SimRuntime> sim = SimRuntime::Create({.seed = 1});
  const absl::Status ended = sim->Run([&] {
    EXPECT_THAT(CheckRealTime(*sim, "this thing"),
                StatusIs(absl::StatusCode::kUnimplemented, "this thing"));
  });
  EXPECT_THAT(ended, IsOk());
}

}  // namespace
}  // namespace muonshard
