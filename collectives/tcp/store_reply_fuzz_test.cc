// Fuzz target: what a client reads, from a server that turned bad: a greeting,
// a verdict, and frames. What is parsed encodes to the same bytes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/tcp/store_protocol.h"
#include "testing/fuzz/fuzz_input.h"

namespace muonshard {
namespace {

constexpr size_t kFrameBytesMax = 600;

void Require(bool condition) {
  if (!condition) std::abort();
}

void ReadFrames(absl::string_view bytes) {
  while (true) {
    const absl::StatusOr<std::optional<absl::string_view>> frame =
        FirstFrame(bytes, kFrameBytesMax);
    if (!frame.ok() || !frame->has_value()) return;
    Require((*frame)->size() <= kFrameBytesMax);
    const auto reply = ParseReply(FrameContent(**frame));
    if (!reply.ok()) return;
    // A refusal may have a code that has no name and comes back as another.
    if (reply->type != StoreReplyType::kRefused) {
      Require(EncodeReply(*reply) == **frame);
    }
    bytes.remove_prefix((*frame)->size());
  }
}

}  // namespace
}  // namespace muonshard

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muonshard;
  testing::FuzzInput input(data, size);
  const std::string greeting = input.TakeBytes(kStoreGreetingBytes);
  if (const auto parsed = ParseGreeting(StoreSide::kServer, greeting);
      parsed.ok() && parsed->version == kStoreProtocolVersion) {
    Require(EncodeGreeting(StoreSide::kServer, parsed->nonce) == greeting);
  }
  const std::string verdict = input.TakeBytes(kStoreVerdictBytes);
  if (const auto parsed = ParseVerdict(verdict); parsed.ok()) {
    Require(EncodeVerdict(*parsed) == verdict);
  }
  ReadFrames(input.TakeRest());
  return 0;
}
