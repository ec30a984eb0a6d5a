#include "collectives/host_exchange.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/plugin.h"
#include "collectives/runtime/threads_runtime.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

class HostExchangeTest : public ::testing::Test {
 protected:
  HostExchangeTest() {
    auto plugin = Plugin::Open(
        {.plugin = "collectives/testing/libmuonshard_solo.so"}, *runtime_);
    EXPECT_THAT(plugin, IsOk());
    auto world = (*plugin)->NewGroup({});
    EXPECT_THAT(world, IsOk());
    world_ = *std::move(world);
  }

  const std::unique_ptr<Runtime> runtime_ = NewThreadsRuntime();
  std::unique_ptr<Collective> world_;
};

TEST_F(HostExchangeTest, TheIdComesThroughByteForByte) {
  for (const std::string& id :
       {std::string(), std::string("a\0b", 3), std::string(254, 'x')}) {
    const auto hosts = ExchangeHosts(*world_, id, absl::InfiniteFuture());
    ASSERT_THAT(hosts, IsOk());
    EXPECT_EQ(hosts->size(), 1);
    EXPECT_EQ(hosts->host_count(), 1);
    EXPECT_EQ(hosts->host_id(0), id);
  }
}

TEST_F(HostExchangeTest, AnIdThatIsTooLongIsRefused) {
  EXPECT_THAT(
      ExchangeHosts(*world_, std::string(255, 'x'), absl::InfiniteFuture()),
      StatusIs(absl::StatusCode::kInvalidArgument, "at most 254 bytes"));
}

TEST_F(HostExchangeTest, AnErrorOfTheGroupIsItsError) {
  world_->Abort(absl::CancelledError("stop"));
  EXPECT_THAT(ExchangeHosts(*world_, "host", absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kAborted, "host id lengths"));
}

TEST_F(HostExchangeTest, ThisMachineIsOneHostAndFitsTheExchange) {
  const std::string id = LocalHostId();
  EXPECT_FALSE(id.empty());
  EXPECT_EQ(id, LocalHostId());
  const auto hosts = ExchangeHosts(*world_, id, absl::InfiniteFuture());
  ASSERT_THAT(hosts, IsOk());
  EXPECT_EQ(hosts->host_id(0), id);
}

}  // namespace
}  // namespace muonshard
