#include "collectives/tcp/store_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/testing/store_conversation.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::ClientGreeting;
using ::muonshard::testing::ClientProof;
using ::muonshard::testing::Enter;
using ::muonshard::testing::StatusIs;
using ::muonshard::testing::TakeAllOutput;
using ::muonshard::testing::TakeOutput;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsNull;

using State = TcpStoreSession::State;

constexpr char kSecret[] = "a secret of this test";

class StoreSessionTest : public ::testing::Test {
 protected:
  StoreSessionTest() { UseLimits({}); }

  void UseLimits(const TcpStoreLimits& limits) {
    job_ = std::make_unique<TcpStoreJob>(kSecret, limits);
  }

  std::unique_ptr<TcpStoreSession> NewStranger() {
    const uint64_t id = ++session_count_;
    std::string nonce(kStoreNonceBytes, 's');
    nonce[0] = static_cast<char>(id);
    return std::make_unique<TcpStoreSession>(*job_, id, nonce);
  }

  std::unique_ptr<TcpStoreSession> NewClient() {
    std::unique_ptr<TcpStoreSession> session = NewStranger();
    Enter(*session, kSecret);
    EXPECT_EQ(session->state(), State::kClient);
    return session;
  }

  std::string Put(uint64_t id, const std::string& key,
                  const std::string& value) {
    return EncodeRequest(
        {.type = StoreRequestType::kPut, .id = id, .key = key, .value = value});
  }
  std::string Get(uint64_t id, const std::string& key) {
    return EncodeRequest(
        {.type = StoreRequestType::kGet, .id = id, .key = key});
  }
  std::string Cancel(uint64_t id) {
    return EncodeRequest({.type = StoreRequestType::kCancel, .id = id});
  }
  std::string Done(uint64_t id) {
    return EncodeReply({.type = StoreReplyType::kDone, .id = id});
  }
  std::string Value(uint64_t id, const std::string& value) {
    return EncodeReply(
        {.type = StoreReplyType::kValue, .id = id, .value = value});
  }
  std::string Absent(uint64_t id) {
    return EncodeReply({.type = StoreReplyType::kAbsent, .id = id});
  }

  // The only reply in `bytes`, if it refuses.
  absl::Status Refusal(const std::string& bytes) {
    const auto frame = FirstFrame(bytes, bytes.size());
    if (!frame.ok() || *frame != absl::string_view(bytes)) {
      return absl::InternalError("want one whole frame");
    }
    const auto reply = ParseReply(FrameContent(bytes));
    return reply.ok() ? reply->refusal : reply.status();
  }

  // A client that sends `bytes` is ended, and nothing is stored.
  void ExpectEnds(const std::string& bytes, const std::string& why) {
    const auto session = NewClient();
    session->Receive(bytes);
    EXPECT_EQ(session->state(), State::kBroken);
    EXPECT_THAT(session->failure(),
                StatusIs(absl::StatusCode::kInvalidArgument, why));
    EXPECT_EQ(session->output(), "");
    EXPECT_FALSE(session->wants_input());
    EXPECT_THAT(job_->contents.Find("key"), IsNull());
  }

  std::unique_ptr<TcpStoreJob> job_;
  uint64_t session_count_ = 0;
};

TEST_F(StoreSessionTest, AClientThatKnowsTheSecretIsServed) {
  const auto session = NewStranger();
  EXPECT_FALSE(session->was_client());
  const std::string bytes = Enter(*session, kSecret);
  const auto verdict = ParseVerdict(bytes);
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->admission, StoreAdmission::kWelcome);
  EXPECT_EQ(verdict->value_bytes_max, job_->limits.value_bytes_max);
  EXPECT_TRUE(session->was_client());
  EXPECT_EQ(job_->client_count, 1);

  session->Receive(
      Put(1, "key", "value") + Get(2, "key") +
      EncodeRequest(
          {.type = StoreRequestType::kAdd, .id = 3, .key = "key", .delta = 5}));
  EXPECT_EQ(TakeOutput(*session),
            Done(1) + Value(2, "value") +
                EncodeReply({.type = StoreReplyType::kSum, .id = 3, .sum = 5}));
}

TEST_F(StoreSessionTest, AConversationByteByByteIsTheSame) {
  const auto session = NewStranger();
  const auto receive = [&](const std::string& bytes) {
    for (const char byte : bytes) session->Receive(std::string(1, byte));
  };
  receive(ClientGreeting());
  receive(ClientProof(kSecret, TakeOutput(*session)));
  EXPECT_EQ(session->state(), State::kClient);
  TakeOutput(*session);
  receive(Put(1, "key", "value") + Get(2, "key"));
  EXPECT_EQ(TakeOutput(*session), Done(1) + Value(2, "value"));
}

TEST_F(StoreSessionTest, AWrongSecretIsToldAndChangesNothing) {
  const auto session = NewStranger();
  const std::string bytes = Enter(*session, "a secret of another job");
  const auto verdict = ParseVerdict(bytes);
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->admission, StoreAdmission::kWrongSecret);
  // Nothing that was made from the secret.
  EXPECT_EQ(verdict->proof, std::string(kStoreProofBytes, '\0'));
  EXPECT_EQ(session->state(), State::kBroken);
  EXPECT_THAT(session->failure(),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_FALSE(session->was_client());
  EXPECT_EQ(job_->client_count, 0);
}

TEST_F(StoreSessionTest, EveryBitOfAProofCounts) {
  for (size_t bit = 0; bit < 8 * kStoreProofBytes; ++bit) {
    const auto session = NewStranger();
    session->Receive(ClientGreeting());
    std::string proof = ClientProof(kSecret, TakeOutput(*session));
    proof[bit / 8] = static_cast<char>(proof[bit / 8] ^ (1 << (bit % 8)));
    session->Receive(proof);
    EXPECT_EQ(session->state(), State::kBroken) << bit;
  }
}

TEST_F(StoreSessionTest, AProofIsGoodOnOneConnection) {
  const auto overheard = NewStranger();
  overheard->Receive(ClientGreeting());
  const std::string proof = ClientProof(kSecret, TakeOutput(*overheard));
  const auto session = NewStranger();
  session->Receive(ClientGreeting());
  session->Receive(proof);
  EXPECT_EQ(session->state(), State::kBroken);
}

TEST_F(StoreSessionTest, TheServersProofIsNotAClients) {
  const auto session = NewStranger();
  session->Receive(ClientGreeting());
  const std::string said = absl::StrCat(ClientGreeting(), TakeOutput(*session));
  session->Receive(StoreProof(kSecret, StoreSide::kServer, said));
  EXPECT_EQ(session->state(), State::kBroken);
}

TEST_F(StoreSessionTest, AnotherVersionIsToldThisOne) {
  std::string greeting = ClientGreeting();
  greeting[8] = 77;
  const auto session = NewStranger();
  session->Receive(greeting);
  EXPECT_EQ(session->state(), State::kBroken);
  EXPECT_THAT(session->failure(),
              StatusIs(absl::StatusCode::kFailedPrecondition, "version 77"));
  const auto answer = ParseGreeting(StoreSide::kServer, session->output());
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->version, kStoreProtocolVersion);
}

TEST_F(StoreSessionTest, GarbageIsNotAnswered) {
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\nHost: host\r\n\r\n"),
        std::string(kStoreGreetingBytes, '\0'), std::string(100000, '\xff'),
        ClientGreeting() + "x"}) {
    const auto session = NewStranger();
    session->Receive(garbage);
    EXPECT_EQ(session->state(), State::kBroken);
    EXPECT_EQ(session->output(), "");
  }
}

TEST_F(StoreSessionTest, ARequestBeforeTheVerdictIsRefused) {
  const auto session = NewStranger();
  session->Receive(ClientGreeting());
  session->Receive(ClientProof(kSecret, TakeOutput(*session)) +
                   Put(1, "key", "value"));
  EXPECT_EQ(session->state(), State::kBroken);
  EXPECT_THAT(job_->contents.Find("key"), IsNull());
}

TEST_F(StoreSessionTest, HalfAGreetingIsAwaited) {
  const auto session = NewStranger();
  session->Receive(ClientGreeting().substr(1));
  EXPECT_EQ(session->state(), State::kStranger);
  EXPECT_TRUE(session->wants_input());
  EXPECT_EQ(session->output(), "");
}

TEST_F(StoreSessionTest, AClientThatBreaksTheProtocolEndsAloneAndAtOnce) {
  // By its length alone.
  ExpectEnds("\xff\xff\xff\xff", "a frame of 4294967295 bytes");
  ExpectEnds(std::string(4, '\0'), "a frame of 0 bytes");
  std::string unknown = Get(1, "key");
  unknown[4] = 99;
  ExpectEnds(unknown, "unknown type 99");
  std::string long_key = Put(1, "key", "value");
  long_key[4 + 9] = '\xff';
  ExpectEnds(long_key, "type 1");
  ExpectEnds(Get(1, "absent") + Get(1, "absent"), "asked twice as 1");
  EXPECT_EQ(job_->client_count, 0);
  EXPECT_TRUE(job_->waiting.empty());

  const auto other = NewClient();
  other->Receive(Put(1, "key", "value"));
  EXPECT_EQ(TakeOutput(*other), Done(1));
}

TEST_F(StoreSessionTest, ABadKeyIsRefusedAndTheClientGoesOn) {
  const auto session = NewClient();
  session->Receive(Put(1, "a key", "value"));
  EXPECT_THAT(Refusal(TakeOutput(*session)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  session->Receive(Put(2, "key", "value"));
  EXPECT_EQ(TakeOutput(*session), Done(2));
}

TEST_F(StoreSessionTest, ALimitIsARefusalAndTheClientGoesOn) {
  UseLimits({.value_bytes_max = 4, .key_count_max = 2});
  const auto session = NewClient();
  session->Receive(Put(1, "key", "12345"));
  EXPECT_THAT(Refusal(TakeOutput(*session)),
              StatusIs(absl::StatusCode::kResourceExhausted, "4 bytes"));
  session->Receive(Put(2, "a", "") + Put(3, "b", ""));
  EXPECT_EQ(TakeOutput(*session), Done(2) + Done(3));
  session->Receive(EncodeRequest(
      {.type = StoreRequestType::kAdd, .id = 4, .key = "c", .delta = 1}));
  EXPECT_THAT(Refusal(TakeOutput(*session)),
              StatusIs(absl::StatusCode::kResourceExhausted, "2 keys"));
}

TEST_F(StoreSessionTest, AGetIsAnsweredWhenAnotherPuts) {
  const auto waiter = NewClient();
  const auto putter = NewClient();
  waiter->Receive(Get(7, "key") + Get(8, "key") + Get(9, "other"));
  EXPECT_EQ(waiter->output(), "");
  putter->Receive(Put(1, "key", "value"));
  EXPECT_EQ(TakeOutput(*putter), Done(1));
  EXPECT_THAT(job_->woken, ElementsAre(waiter.get()));
  EXPECT_EQ(TakeAllOutput(*waiter), "");
  waiter->Sent(0);
  EXPECT_EQ(TakeOutput(*waiter), Value(7, "value") + Value(8, "value"));
  // Once.
  putter->Receive(Put(2, "key", "again"));
  waiter->Sent(0);
  EXPECT_EQ(waiter->output(), "");
}

TEST_F(StoreSessionTest, ACancelledGetEndsAndIsNotAnsweredAgain) {
  const auto session = NewClient();
  session->Receive(Get(1, "key") + Cancel(1));
  EXPECT_EQ(TakeOutput(*session), Absent(1));
  EXPECT_TRUE(job_->waiting.empty());
  session->Receive(Put(2, "key", "late"));
  EXPECT_EQ(TakeOutput(*session), Done(2));
  // What is answered, or was never asked, is not answered by a cancel.
  session->Receive(Get(3, "key") + Cancel(3) + Cancel(4));
  EXPECT_EQ(TakeOutput(*session), Value(3, "late"));
}

TEST_F(StoreSessionTest, AGetThatCameIsNotCancelledAnyMore) {
  const auto waiter = NewClient();
  const auto putter = NewClient();
  waiter->Receive(Get(1, "key"));
  putter->Receive(Put(1, "key", "value"));
  waiter->Receive(Cancel(1));
  EXPECT_EQ(TakeAllOutput(*waiter), Value(1, "value"));
}

TEST_F(StoreSessionTest, AClientWaitsForSoManyKeysAtOnce) {
  const auto session = NewClient();
  for (uint64_t id = 1; id <= TcpStoreSession::kWaitingCountMax; ++id) {
    session->Receive(Get(id, "key"));
  }
  EXPECT_EQ(session->output(), "");
  session->Receive(Get(0, "key"));
  EXPECT_THAT(Refusal(TakeOutput(*session)),
              StatusIs(absl::StatusCode::kResourceExhausted));
  session->Receive(Cancel(5) + Get(0, "key"));
  EXPECT_EQ(TakeOutput(*session), Absent(5));
}

// Twenty replies of 100 KiB: to requests that come one behind the other, or all
// at once when the key comes.
TEST_F(StoreSessionTest, AClientThatDoesNotReadCostsNoMoreThanItsLimit) {
  constexpr uint64_t kReplies = 20;
  const std::string value(100000, 'v');
  const size_t output_bytes_max =
      TcpStoreSession::kOutputBytesMax + value.size() + kStoreFrameExtraMax;
  for (const bool is_stored_first : {true, false}) {
    SCOPED_TRACE(is_stored_first);
    UseLimits({});
    const auto session = NewClient();
    const auto putter = NewClient();
    if (is_stored_first) putter->Receive(Put(1, "key", value));
    std::string all;
    for (uint64_t id = 1; id <= kReplies; ++id) all += Get(id, "key");
    session->Receive(all);
    if (!is_stored_first) {
      putter->Receive(Put(1, "key", value));
      session->Sent(0);
    }
    EXPECT_FALSE(session->wants_input());
    EXPECT_LT(session->output().size(), output_bytes_max);

    std::string expected;
    for (uint64_t id = 1; id <= kReplies; ++id) expected += Value(id, value);
    std::string got;
    while (!session->output().empty()) {
      EXPECT_LT(session->output().size(), output_bytes_max);
      const std::string piece(session->output().substr(0, 30000));
      session->Sent(piece.size());
      got += piece;
    }
    EXPECT_TRUE(got == expected);
    EXPECT_TRUE(session->wants_input());
  }
}

TEST_F(StoreSessionTest, TooManyClientsAreToldByAServerThatProvesItself) {
  UseLimits({.client_count_max = 2});
  const auto one = NewClient();
  auto two = NewClient();
  const auto three = NewStranger();
  const std::string bytes = Enter(*three, kSecret);
  const auto verdict = ParseVerdict(bytes);
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->admission, StoreAdmission::kTooManyClients);
  EXPECT_NE(verdict->proof, std::string(kStoreProofBytes, '\0'));
  EXPECT_EQ(three->state(), State::kBroken);
  EXPECT_THAT(three->failure(),
              StatusIs(absl::StatusCode::kResourceExhausted, "2 clients"));
  EXPECT_EQ(job_->client_count, 2);
  two = nullptr;
  NewClient();
}

TEST_F(StoreSessionTest, OneThatEndsWaitsForNothing) {
  auto waiter = NewClient();
  const auto putter = NewClient();
  waiter->Receive(Get(1, "key"));
  waiter = nullptr;
  EXPECT_TRUE(job_->waiting.empty());
  putter->Receive(Put(1, "key", "value"));
  EXPECT_THAT(job_->woken, IsEmpty());

  waiter = NewClient();
  waiter->Receive(Get(1, "other"));
  putter->Receive(Put(2, "other", "value"));
  waiter = nullptr;
  EXPECT_THAT(job_->woken, IsEmpty());
  EXPECT_EQ(job_->client_count, 1);
}

TEST_F(StoreSessionTest, NothingIsReadAfterAGoodbye) {
  const auto session = NewClient();
  session->Receive(EncodeRequest({.type = StoreRequestType::kGoodbye}) +
                   Put(1, "key", "value"));
  EXPECT_EQ(session->state(), State::kGoodbye);
  EXPECT_FALSE(session->wants_input());
  EXPECT_EQ(session->output(), "");
  EXPECT_THAT(job_->contents.Find("key"), IsNull());
}

}  // namespace
}  // namespace muonshard
