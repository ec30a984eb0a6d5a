// Fuzz target: what a stranger and two clients send to the sessions of one job.
//
// The input is a script: a byte that says who sends, one that says how many
// bytes, and these. Whether what a session has to say is taken is in the first,
// too, so that clients that do not read are met.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "collectives/tcp/store_limits.h"
#include "collectives/tcp/store_protocol.h"
#include "collectives/tcp/store_session.h"
#include "collectives/testing/store_conversation.h"
#include "testing/fuzz/fuzz_input.h"

namespace muonshard {
namespace {

using State = TcpStoreSession::State;

constexpr char kSecret[] = "a secret of this target";
constexpr size_t kSessionCount = 3;
constexpr TcpStoreLimits kLimits = {.value_bytes_max = 300,
                                    .key_count_max = 8,
                                    .stored_bytes_max = 1000,
                                    .client_count_max = 2};

void Require(bool condition) {
  if (!condition) std::abort();
}

// The first is a stranger; the others are clients.
std::unique_ptr<TcpStoreSession> NewSession(TcpStoreJob& job, size_t index) {
  auto session = std::make_unique<TcpStoreSession>(
      job, index, std::string(kStoreNonceBytes, 's'));
  if (index > 0) testing::Enter(*session, kSecret);
  return session;
}

void CheckBounds(const TcpStoreSession& session) {
  Require(session.output().size() < TcpStoreSession::kOutputBytesMax +
                                        kLimits.value_bytes_max +
                                        kStoreFrameExtraMax);
  // Not even the fuzzer knows the proof of the stranger's connection.
  Require(session.id() > 0 || !session.was_client());
}

// What a client reads must be whole replies.
void TakeReplies(TcpStoreSession& session) {
  const std::string output = testing::TakeAllOutput(session);
  absl::string_view bytes = output;
  while (!bytes.empty()) {
    const auto frame =
        FirstFrame(bytes, kLimits.value_bytes_max + kStoreFrameExtraMax);
    Require(frame.ok() && frame->has_value());
    Require(ParseReply(FrameContent(**frame)).ok());
    bytes.remove_prefix((*frame)->size());
  }
}

void Play(testing::FuzzInput& input) {
  TcpStoreJob job(kSecret, kLimits);
  std::array<std::unique_ptr<TcpStoreSession>, kSessionCount> sessions;
  while (!input.empty()) {
    const uint8_t action = input.TakeByte();
    const size_t index = action % kSessionCount;
    std::unique_ptr<TcpStoreSession>& session = sessions[index];
    if (session == nullptr) session = NewSession(job, index);
    const std::string bytes = input.TakeBytes(input.TakeByte());
    if (session->wants_input()) session->Receive(bytes);
    CheckBounds(*session);
    if (action & 0x80) {
      if (session->was_client()) {
        TakeReplies(*session);
      } else {
        testing::TakeAllOutput(*session);
      }
    }
    if (action & 0x40) session = nullptr;
    while (!job.woken.empty()) {
      TcpStoreSession& woken = *job.woken.back();
      job.woken.pop_back();
      woken.Sent(0);
      CheckBounds(woken);
    }
  }
  for (auto& session : sessions) session = nullptr;
  Require(job.client_count == 0 && job.waiting.empty());
}

}  // namespace
}  // namespace muonshard

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  muonshard::testing::FuzzInput input(data, size);
  muonshard::Play(input);
  return 0;
}
