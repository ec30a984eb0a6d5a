// What a client of a TCP store makes of servers that are none, lie or are
// silent.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/tcp/socket.h"
#include "collectives/tcp/store_proof.h"
#include "collectives/tcp/store_protocol.h"
#include "collectives/tcp_store.h"
#include "testing/status_matchers.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

constexpr char kHost[] = "127.0.0.1";
constexpr char kSecret[] = "a secret of this test";

class FalseServerTest : public ::testing::Test {
 protected:
  // Given all that was said on the connection, what the server says next.
  using Answer = std::function<std::string(const std::string& said)>;
  using Program = std::function<absl::Status(Store&)>;

  absl::Time Guard() { return runtime_->Now() + absl::Seconds(60); }

  // Gives each message of one client one of `answers`, then says nothing until
  // the client ends the connection.
  absl::Status Serve(const Descriptor& listening,
                     const std::vector<Answer>& answers) {
    if (!WaitToRead(*runtime_, listening, Guard())) {
      return absl::DeadlineExceededError("nobody came");
    }
    std::string address;
    const auto socket = AcceptFrom(listening, &address);
    if (!socket.ok()) return socket.status();
    std::string said;
    size_t answer_count = 0;
    while (WaitToRead(*runtime_, *socket, Guard())) {
      char buffer[4096];
      const Transfer read = ReadSome(*socket, buffer, sizeof(buffer));
      if (read.bytes == 0 && !read.would_block) return absl::OkStatus();
      said.append(buffer, read.bytes);
      if (answer_count == answers.size()) continue;
      const std::string answer = answers[answer_count++](said);
      SendSome(*socket, answer);
      said += answer;
    }
    return absl::DeadlineExceededError("the client does not end");
  }

  // What a client finds that connects, and then runs `program`.
  absl::Status Meet(const std::vector<Answer>& answers, absl::Duration timeout,
                    const Program& program) {
    const auto listening = ListenOn(kHost, 0);
    EXPECT_THAT(listening, IsOk());
    const std::vector<absl::Status> ends =
        RunRanks(*runtime_, 2, [&](Rank rank) -> absl::Status {
          if (rank == Rank{0}) return Serve(*listening, answers);
          const auto store =
              ConnectTcpStore(*runtime_, kHost, PortOf(*listening), kSecret,
                              runtime_->Now() + timeout);
          return store.ok() ? program(**store) : store.status();
        });
    EXPECT_THAT(ends[0], IsOk());
    return ends[1];
  }

  absl::Status Meet(const std::vector<Answer>& answers,
                    absl::Duration timeout = absl::Seconds(60)) {
    return Meet(answers, timeout, [](Store&) { return absl::OkStatus(); });
  }

  static Answer Say(const std::string& text) {
    return [text](const std::string&) { return text; };
  }

  // A verdict that lets everybody in, proved with `secret`.
  static Answer Welcome(const std::string& secret) {
    return [secret](const std::string& said) {
      const std::string terms =
          EncodeVerdictTerms(StoreAdmission::kWelcome, 1000);
      const std::string proof =
          StoreProof(secret, StoreSide::kServer, said + terms);
      return EncodeVerdict({.value_bytes_max = 1000, .proof = proof});
    };
  }

  const std::string greeting_ =
      EncodeGreeting(StoreSide::kServer, std::string(kStoreNonceBytes, 's'));
  const std::unique_ptr<Runtime> runtime_ = NewThreadsRuntime();
};

TEST_F(FalseServerTest, OneWithTheSecretIsBelieved) {
  EXPECT_THAT(Meet({Say(greeting_), Welcome(kSecret)}), IsOk());
}

TEST_F(FalseServerTest, OneWithoutTheSecretIsFoundOut) {
  EXPECT_THAT(Meet({Say(greeting_), Welcome("a secret of another job")}),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       "does not know the secret"));
}

TEST_F(FalseServerTest, TheTermsOfAVerdictAreProvedToo) {
  const Answer raised = [](const std::string& said) {
    std::string verdict = Welcome(kSecret)(said);
    verdict[8] = 1;  // Of value_bytes_max.
    return verdict;
  };
  EXPECT_THAT(Meet({Say(greeting_), raised}),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(FalseServerTest, AnotherVersionIsTold) {
  std::string greeting = greeting_;
  greeting[8] = 9;
  EXPECT_THAT(Meet({Say(greeting)}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "version 9"));
}

TEST_F(FalseServerTest, WhatIsNoStoreIsTold) {
  EXPECT_THAT(Meet({Say("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n")}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "no store"));
  EXPECT_THAT(
      Meet({Say(greeting_), Say(std::string(kStoreVerdictBytes, '\xff'))}),
      StatusIs(absl::StatusCode::kFailedPrecondition, "verdict"));
}

TEST_F(FalseServerTest, OneThatIsSilentIsUnavailableAtTheDeadline) {
  EXPECT_THAT(Meet({}, absl::Milliseconds(30)),
              StatusIs(absl::StatusCode::kUnavailable, "does not answer"));
  EXPECT_THAT(Meet({Say(greeting_)}, absl::Milliseconds(30)),
              StatusIs(absl::StatusCode::kUnavailable, "does not answer"));
}

TEST_F(FalseServerTest, BrokenRepliesEndTheStore) {
  std::string unknown = EncodeReply({.type = StoreReplyType::kDone, .id = 1});
  unknown[4] = 99;
  for (const std::string& reply : {unknown, std::string("\xff\xff\xff\xff")}) {
    const auto put_twice = [](Store& store) {
      EXPECT_THAT(store.Put("key", "value"),
                  StatusIs(absl::StatusCode::kUnavailable, "store protocol"));
      return store.Put("key", "value");
    };
    EXPECT_THAT(Meet({Say(greeting_), Welcome(kSecret), Say(reply)},
                     absl::Seconds(60), put_twice),
                StatusIs(absl::StatusCode::kUnavailable, "store protocol"));
  }
}

TEST_F(FalseServerTest, AReplyThatNobodyWaitsForIsPassedOver) {
  const std::string replies =
      EncodeReply({.type = StoreReplyType::kDone, .id = 77}) +
      EncodeReply({.type = StoreReplyType::kDone, .id = 1});
  EXPECT_THAT(
      Meet({Say(greeting_), Welcome(kSecret), Say(replies)}, absl::Seconds(60),
           [](Store& store) { return store.Put("key", "value"); }),
      IsOk());
}

// Its deadline is past, and the last word on it never comes. Beyond that time
// there is the bound that the header names.
TEST_F(FalseServerTest, AGetOfOneThatFallsSilentEndsSoonAfterItsDeadline) {
  const auto get = [this](Store& store) {
    const absl::Time start = runtime_->Now();
    const absl::Status ended = store.Get("key", absl::InfinitePast()).status();
    EXPECT_LT(runtime_->Now(), start + absl::Seconds(20));
    return ended;
  };
  EXPECT_THAT(Meet({Say(greeting_), Welcome(kSecret)}, absl::Seconds(60), get),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "silent"));
}

}  // namespace
}  // namespace muonshard
