#include "collectives/tcp/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

class SocketTest : public ::testing::Test {
 protected:
  absl::Time Soon() { return runtime_->Now() + absl::Milliseconds(20); }
  absl::Time Guard() { return runtime_->Now() + absl::Seconds(60); }

  // The next connection to `listening`, which somebody made or makes.
  Descriptor Accept(const Descriptor& listening, std::string* address) {
    EXPECT_TRUE(WaitToRead(*runtime_, listening, Guard()));
    absl::StatusOr<Descriptor> accepted = AcceptFrom(listening, address);
    EXPECT_THAT(accepted, IsOk());
    return *std::move(accepted);
  }

  const std::unique_ptr<Runtime> runtime_ = NewThreadsRuntime();
};

TEST_F(SocketTest, CarriesBytesBothWaysAndTellsItsEnd) {
  const auto listening = ListenOn("127.0.0.1", 0);
  ASSERT_THAT(listening, IsOk());
  auto client = ConnectTo(*runtime_, "127.0.0.1", PortOf(*listening), Guard());
  ASSERT_THAT(client, IsOk());
  std::string address;
  const Descriptor server = Accept(*listening, &address);
  EXPECT_EQ(address, "127.0.0.1");

  char buffer[16] = {};
  EXPECT_TRUE(ReadSome(server, buffer, sizeof(buffer)).would_block);
  EXPECT_FALSE(WaitToRead(*runtime_, server, Soon()));
  ASSERT_EQ(SendSome(*client, "hello").bytes, 5u);
  ASSERT_TRUE(WaitToRead(*runtime_, server, Guard()));
  EXPECT_EQ(ReadSome(server, buffer, sizeof(buffer)).bytes, 5u);
  EXPECT_EQ(std::string(buffer), "hello");

  ShutDown(*client);
  ASSERT_TRUE(WaitToRead(*runtime_, server, Guard()));
  const Transfer end = ReadSome(server, buffer, sizeof(buffer));
  EXPECT_EQ(end.bytes, 0u);
  EXPECT_FALSE(end.would_block);
  EXPECT_EQ(end.error, 0);
  // No signal ends this process.
  EXPECT_NE(SendSome(*client, "more").error, 0);
}

TEST_F(SocketTest, IsFullWhenNobodyReads) {
  const auto listening = ListenOn("127.0.0.1", 0);
  ASSERT_THAT(listening, IsOk());
  const auto client =
      ConnectTo(*runtime_, "127.0.0.1", PortOf(*listening), Guard());
  ASSERT_THAT(client, IsOk());
  const std::string chunk(1 << 16, 'x');
  Transfer sent;
  do {
    sent = SendSome(*client, chunk);
    ASSERT_EQ(sent.error, 0);
  } while (!sent.would_block);
  EXPECT_FALSE(WaitToWrite(*runtime_, *client, Soon()));
}

TEST_F(SocketTest, IsClosedInAnotherProgram) {
  const auto listening = ListenOn("127.0.0.1", 0);
  ASSERT_THAT(listening, IsOk());
  const auto client =
      ConnectTo(*runtime_, "127.0.0.1", PortOf(*listening), Guard());
  ASSERT_THAT(client, IsOk());
  std::string address;
  const Descriptor server = Accept(*listening, &address);
  for (const Descriptor* const each : {&*listening, &*client, &server}) {
    EXPECT_NE(fcntl(each->number(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(fcntl(each->number(), F_GETFL) & O_NONBLOCK, 0);
  }
}

TEST_F(SocketTest, IsReachedThroughTheChosenAddressAlone) {
  const auto listening = ListenOn("127.0.0.2", 0);
  ASSERT_THAT(listening, IsOk());
  const uint16_t port = PortOf(*listening);
  EXPECT_THAT(ConnectTo(*runtime_, "127.0.0.2", port, Guard()), IsOk());
  EXPECT_THAT(ConnectTo(*runtime_, "127.0.0.1", port, Guard()),
              StatusIs(absl::StatusCode::kUnavailable, "Connection refused"));
}

TEST_F(SocketTest, SpeaksIpv6WhereThereIsAny) {
  const auto listening = ListenOn("::1", 0);
  if (!listening.ok()) GTEST_SKIP() << listening.status();
  const uint16_t port = PortOf(*listening);
  const auto client = ConnectTo(*runtime_, "::1", port, Guard());
  ASSERT_THAT(client, IsOk());
  std::string address;
  Accept(*listening, &address);
  EXPECT_EQ(address, "::1");
  EXPECT_THAT(ListenOn("::1", port), StatusIs(absl::StatusCode::kUnavailable,
                                              absl::StrCat("[::1]:", port)));
}

TEST_F(SocketTest, APortInUseIsUnavailableByName) {
  const auto listening = ListenOn("127.0.0.1", 0);
  ASSERT_THAT(listening, IsOk());
  EXPECT_THAT(ListenOn("127.0.0.1", PortOf(*listening)),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("127.0.0.1:", PortOf(*listening),
                                    ": Address already in use")));
}

TEST_F(SocketTest, AnAddressOfAnotherHostCannotBeListenedOn) {
  // Of a network that is for documents alone.
  EXPECT_THAT(ListenOn("192.0.2.1", 0),
              StatusIs(absl::StatusCode::kUnavailable, "192.0.2.1:0"));
}

TEST_F(SocketTest, AHostThatSwallowsEverythingIsUnavailableAtTheDeadline) {
  // Room for one connection that nobody accepts; what comes then is dropped.
  const Descriptor full(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(full.number(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)),
            0);
  ASSERT_EQ(listen(full.number(), 0), 0);
  std::vector<Descriptor> waiting;
  absl::Status ended;
  while (ended.ok() && waiting.size() < 100) {
    auto client = ConnectTo(*runtime_, "127.0.0.1", PortOf(full), Soon());
    ended = client.status();
    if (client.ok()) waiting.push_back(*std::move(client));
  }
  EXPECT_THAT(ended, StatusIs(absl::StatusCode::kUnavailable, "timed out"));
}

// The kernel hands out ports in turns, every other one of 28,000, so that
// within so many attempts one of them begins at the port that it wants to
// reach.
TEST_F(SocketTest, NobodyIsConnectedToItself) {
  constexpr int kAttempts = 16000;
  uint16_t port = 45002;
  while (!ListenOn("127.0.0.1", port).ok()) port += 2;
  for (int i = 0; i < kAttempts; ++i) {
    ASSERT_THAT(ConnectTo(*runtime_, "127.0.0.1", port, Guard()),
                StatusIs(absl::StatusCode::kUnavailable, "refused"))
        << i;
  }
}

TEST_F(SocketTest, AHostThatCannotBeIsNotFound) {
  EXPECT_THAT(ListenOn("no host", 7),
              StatusIs(absl::StatusCode::kNotFound, "no host:7"));
  EXPECT_THAT(ConnectTo(*runtime_, "no host", 7, Guard()),
              StatusIs(absl::StatusCode::kNotFound, "no host:7"));
}

TEST_F(SocketTest, ADescriptorMovesAndIsClosedOnce) {
  auto listening = ListenOn("127.0.0.1", 0);
  ASSERT_THAT(listening, IsOk());
  const int number = listening->number();
  Descriptor moved;
  EXPECT_FALSE(moved.is_open());
  moved = *std::move(listening);
  EXPECT_EQ(moved.number(), number);
  { const Descriptor last(std::move(moved)); }
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST(MillisecondsUntil, AreRoundedUpAndWithinAMinute) {
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(MillisecondsUntil(now + absl::Nanoseconds(1), now), 1);
  EXPECT_EQ(MillisecondsUntil(now + absl::Milliseconds(7), now), 7);
  EXPECT_EQ(MillisecondsUntil(now, now), 0);
  EXPECT_EQ(MillisecondsUntil(absl::InfinitePast(), now), 0);
  EXPECT_EQ(MillisecondsUntil(absl::InfiniteFuture(), now), 60000);
}

TEST(HostAndPort, PutsIpv6InBrackets) {
  EXPECT_EQ(HostAndPort("node", 7), "node:7");
  EXPECT_EQ(HostAndPort("::1", 65535), "[::1]:65535");
}

}  // namespace
}  // namespace muonshard
