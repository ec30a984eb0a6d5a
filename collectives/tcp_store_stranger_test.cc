// Who may not, or no longer, talk to the server of a TCP store: strangers, and
// clients that break the protocol.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/tcp/socket.h"
#include "collectives/tcp/store_handshake.h"
#include "collectives/tcp/store_protocol.h"
#include "collectives/tcp_store.h"
#include "collectives/testing/recording_runtime.h"
#include "testing/status_matchers.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::RecordingRuntime;
using ::muonshard::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kHost[] = "127.0.0.1";
constexpr char kSecret[] = "a secret of this test";

std::string Greeting() {
  return EncodeGreeting(StoreSide::kClient, std::string(kStoreNonceBytes, 'n'));
}

class StrangerTest : public ::testing::Test {
 protected:
  absl::Time Guard() { return runtime_.Now() + absl::Seconds(60); }

  void Listen(const TcpStoreLimits& limits = {}) {
    auto server =
        TcpStoreServer::Listen(runtime_, {.secret = kSecret, .limits = limits});
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
  }

  std::unique_ptr<Store> Connect() {
    auto store =
        ConnectTcpStore(runtime_, kHost, server_->port(), kSecret, Guard());
    EXPECT_THAT(store, IsOk());
    return *std::move(store);
  }

  // A connection over which nothing was said yet.
  Descriptor Call() {
    auto socket = ConnectTo(runtime_, kHost, server_->port(), Guard());
    EXPECT_THAT(socket, IsOk());
    return *std::move(socket);
  }

  // One that has proved that it knows the secret.
  Descriptor EnterBare() {
    auto entered =
        EnterTcpStore(runtime_, kHost, server_->port(), kSecret, Guard());
    EXPECT_THAT(entered, IsOk());
    return std::move(entered->socket);
  }

  // What comes until the other side ends the connection.
  std::string ReadToEnd(const Descriptor& socket) {
    std::string all;
    char buffer[4096];
    while (WaitToRead(runtime_, socket, Guard())) {
      const Transfer read = ReadSome(socket, buffer, sizeof(buffer));
      all.append(buffer, read.bytes);
      if (read.bytes == 0 && !read.would_block) return all;
    }
    ADD_FAILURE() << "the connection goes on";
    return all;
  }

  // The lines logged until one has `text`.
  std::vector<std::string> LinesUntil(absl::string_view text) {
    std::vector<std::string> lines;
    for (const absl::Time end = Guard(); runtime_.Now() < end;) {
      for (std::string& line : runtime_.TakeLines()) {
        lines.push_back(std::move(line));
        if (absl::string_view(lines.back()).find(text) !=
            absl::string_view::npos) {
          return lines;
        }
      }
      runtime_.Yield();
    }
    ADD_FAILURE() << "no line has: " << text;
    return lines;
  }

  // Ends the server; the lines that it had left to log.
  std::vector<std::string> LastLines() {
    server_ = nullptr;
    return runtime_.TakeLines();
  }

  RecordingRuntime runtime_{NewThreadsRuntime()};
  std::unique_ptr<TcpStoreServer> server_;
};

TEST_F(StrangerTest, WithAnotherSecretIsRefusedAndLoggedOnce) {
  Listen();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(ConnectTcpStore(runtime_, kHost, server_->port(),
                                "a secret of another job", Guard()),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         absl::StrCat(kHost, ":", server_->port())));
  }
  EXPECT_EQ(*Connect()->Add("count", 1), 1);
  EXPECT_THAT(LastLines(),
              ElementsAre(AllOf(HasSubstr("a stranger from 127.0.0.1"),
                                HasSubstr("does not know the secret")),
                          HasSubstr("2 more connections")));
}

TEST_F(StrangerTest, WhoTalksGarbageIsTurnedAway) {
  Listen();
  const auto store = Connect();
  ASSERT_THAT(store->Put("key", "value"), IsOk());
  const std::string huge = Greeting() + std::string(1 << 20, '\xff');
  std::string other_version = Greeting();
  other_version[8] = 2;
  for (const std::string& said :
       {std::string(kStoreGreetingBytes, 'g'),
        std::string("GET /index.html HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        std::string(1 << 20, '\xff'), huge, other_version,
        Greeting() + std::string(kStoreProofBytes, '\0')}) {
    const Descriptor stranger = Call();
    // What does not fit is not sent; it is turned away before.
    SendSome(stranger, said);
    ReadToEnd(stranger);
  }
  EXPECT_EQ(*store->Get("key", absl::InfinitePast()), "value");
  EXPECT_THAT(LastLines(), ElementsAre(HasSubstr("not begin with a greeting"),
                                       HasSubstr("5 more connections")));
}

TEST_F(StrangerTest, WhoStopsInTheMiddleIsTurnedAwayInTime) {
  Listen({.stranger_timeout = absl::Milliseconds(50)});
  const absl::Time start = runtime_.Now();
  const Descriptor silent = Call();
  const Descriptor half = Call();
  SendSome(half, Greeting().substr(0, 11));
  const Descriptor unproven = Call();
  SendSome(unproven, Greeting());
  EXPECT_EQ(ReadToEnd(silent), "");
  EXPECT_GE(runtime_.Now(), start + absl::Milliseconds(50));
  EXPECT_EQ(ReadToEnd(half), "");
  EXPECT_EQ(ReadToEnd(unproven).size(), kStoreGreetingBytes);
  EXPECT_EQ(*Connect()->Add("count", 1), 1);
  EXPECT_THAT(LastLines(), ElementsAre(HasSubstr("not prove in time"),
                                       HasSubstr("2 more connections")));
}

TEST_F(StrangerTest, WhoLeavesInTheMiddleIsLogged) {
  Listen();
  {
    const Descriptor half = Call();
    SendSome(half, Greeting().substr(0, 11));
  }
  EXPECT_THAT(LinesUntil("closed its connection"),
              ElementsAre(HasSubstr("a stranger from 127.0.0.1")));
}

TEST_F(StrangerTest, TheOldestOfTooManyIsTurnedAway) {
  Listen({.stranger_count_max = 3});
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 4; ++i) strangers.push_back(Call());
  EXPECT_EQ(ReadToEnd(strangers[0]), "");
  EXPECT_THAT(LinesUntil("too many of them"),
              ElementsAre(HasSubstr("a stranger from 127.0.0.1")));
  // The others have kept their places.
  SendSome(strangers[1], Greeting());
  ASSERT_TRUE(WaitToRead(runtime_, strangers[1], Guard()));
  char buffer[kStoreGreetingBytes];
  EXPECT_EQ(ReadSome(strangers[1], buffer, sizeof(buffer)).bytes,
            kStoreGreetingBytes);
}

TEST_F(StrangerTest, TenThousandOfThemDoNoHarmAndAreLoggedOnce) {
  constexpr int kWaves = 50;
  constexpr int kStrangersOfAWave = 200;
  Listen();
  const auto store = Connect();
  std::atomic<bool> are_gone = false;
  const auto flood = [&]() -> absl::Status {
    const std::string wrong = Greeting() + std::string(kStoreProofBytes, 'p');
    for (int wave = 0; wave < kWaves; ++wave) {
      std::vector<Descriptor> strangers;
      for (int i = 0; i < kStrangersOfAWave; ++i) {
        auto stranger = ConnectTo(runtime_, kHost, server_->port(), Guard());
        if (!stranger.ok()) return stranger.status();
        SendSome(*stranger, absl::string_view(wrong).substr(
                                0, static_cast<size_t>(i) % wrong.size()));
        strangers.push_back(*std::move(stranger));
      }
    }
    return absl::OkStatus();
  };
  const auto work = [&](Store& own) -> absl::Status {
    do {
      if (absl::Status s = own.Put("key", "value"); !s.ok()) return s;
      if (auto value = own.Get("key", Guard()); !value.ok()) {
        return value.status();
      }
      if (auto sum = own.Add("count", 1); !sum.ok()) return sum.status();
    } while (!are_gone);
    return absl::OkStatus();
  };
  EXPECT_THAT(RunRanks(runtime_, 3,
                       [&](Rank rank) -> absl::Status {
                         if (rank == Rank{0}) {
                           const absl::Status flooded = flood();
                           are_gone = true;
                           return flooded;
                         }
                         if (rank == Rank{1}) return work(*store);
                         // And clients come and go.
                         while (!are_gone) {
                           const auto own = Connect();
                           if (auto sum = own->Add("came", 1); !sum.ok()) {
                             return sum.status();
                           }
                         }
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
  EXPECT_EQ(*store->Get("key", absl::InfinitePast()), "value");
  const std::vector<std::string> lines = LastLines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("a stranger from 127.0.0.1"));
  EXPECT_THAT(lines[1], HasSubstr("more connections of strangers"));
}

TEST_F(StrangerTest, AClientThatBreaksTheProtocolEndsAlone) {
  Listen();
  const auto store = Connect();
  ASSERT_THAT(store->Put("key", "value"), IsOk());
  std::string unknown =
      EncodeRequest({.type = StoreRequestType::kGet, .id = 1, .key = "key"});
  unknown[4] = 99;
  for (const auto& [said, why] :
       {std::pair<std::string, std::string>("\xff\xff\xff\xff", "4294967295"),
        {unknown, "unknown type 99"}}) {
    const Descriptor bad = EnterBare();
    SendSome(bad, said);
    EXPECT_EQ(ReadToEnd(bad), "");
    EXPECT_THAT(LinesUntil(why), ElementsAre(HasSubstr("ended a client at")));
  }
  EXPECT_THAT(server_->WaitForGoodbyes(2, Guard()), IsOk());
  EXPECT_EQ(*store->Get("key", absl::InfinitePast()), "value");
}

TEST_F(StrangerTest, ClientsThatAreLostCountAsGoneAndAreLoggedOnce) {
  Listen();
  for (int i = 1; i <= 3; ++i) {
    { const Descriptor lost = EnterBare(); }
    EXPECT_THAT(server_->WaitForGoodbyes(i, Guard()), IsOk());
  }
  EXPECT_THAT(LastLines(), ElementsAre(HasSubstr("lost a client at 127.0.0.1"),
                                       HasSubstr("lost 2 more clients")));
}

TEST_F(StrangerTest, AClientThatSaysGoodbyeIsNotLost) {
  Listen();
  for (int i = 0; i < 20; ++i) Connect()->Put("key", "value").IgnoreError();
  EXPECT_THAT(server_->WaitForGoodbyes(20, Guard()), IsOk());
  EXPECT_THAT(LastLines(), IsEmpty());
}

TEST_F(StrangerTest, AServerWithoutDescriptorsServesOnAndAcceptsAgain) {
  Listen();
  const auto store = Connect();
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  // Room for the stranger's end alone.
  rlim_t lowest_free = 0;
  {
    const Descriptor probe(open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(probe.is_open());
    lowest_free = static_cast<rlim_t>(probe.number());
  }
  const rlimit low = {.rlim_cur = lowest_free + 1, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<std::string> lines;
  absl::Status got;
  int64_t now_count = 0;
  {
    const Descriptor stranger = Call();
    lines = LinesUntil("accepts nobody now");
    now_count = runtime_.now_count();
    got = store->Get("key", runtime_.Now() + absl::Milliseconds(250)).status();
    now_count = runtime_.now_count() - now_count;
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  // Not before: sanitizers, too, need a descriptor at times.
  EXPECT_THAT(lines, ElementsAre(HasSubstr("Too many open files")));
  EXPECT_THAT(got, StatusIs(absl::StatusCode::kDeadlineExceeded));
  // The task that serves reads the clock each time that it wakes: ten times a
  // second, not all the time.
  EXPECT_LT(now_count, 100);
  EXPECT_EQ(*Connect()->Add("count", 1), 1);
}

}  // namespace
}  // namespace muonshard
