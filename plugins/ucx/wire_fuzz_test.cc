// Fuzz target: the head of a message, as a peer that turned bad may send it.
// What is taken encodes to the same bytes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/ucx/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using muonshard::ucx::Decode;
  using muonshard::ucx::Encode;
  using muonshard::ucx::Head;
  using muonshard::ucx::MessageKind;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  constexpr int32_t kRanks = 4;
  Head head;
  if (!Decode(bytes, kRanks, &head).ok()) return 0;
  const std::vector<std::byte> again = Encode(head);
  const bool is_same =
      std::vector<std::byte>(bytes.begin(), bytes.end()) == again;
  const bool is_sound =
      head.sender >= 0 && head.sender < kRanks && head.culprit < kRanks &&
      head.text.size() <= muonshard::ucx::kTextBytesMax &&
      (head.kind != MessageKind::kBreak || head.code >= MUONSHARD_E_ARGUMENT);
  if (!is_same || !is_sound) std::abort();
  return 0;
}
