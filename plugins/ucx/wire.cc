#include "plugins/ucx/wire.h"

#include <algorithm>
#include <cstring>

#include "collectives/plugin_abi.h"

namespace muonshard::ucx {
namespace {

using plugins::Outcome;

// "muon" and the version of this format.
constexpr uint64_t kMagic = 0x6d756f6e00000001;

struct Fixed {
  uint64_t magic;
  uint64_t sequence;
  uint64_t digest;
  uint64_t bytes;
  int32_t sender;
  uint32_t round;
  uint32_t number;
  int32_t code;
  int32_t culprit;
  uint16_t text_bytes;
  uint8_t kind;
  uint8_t reserved;
};
static_assert(sizeof(Fixed) == 56, "no padding travels");

Outcome Refused(const std::string& text) {
  return {.code = MUONSHARD_E_CORRUPT,
          .text = "the head of a message is damaged: " + text};
}

}  // namespace

std::vector<std::byte> Encode(const Head& head) {
  const size_t text_bytes = std::min(head.text.size(), kTextBytesMax);
  const Fixed fixed = {.magic = kMagic,
                       .sequence = head.sequence,
                       .digest = head.digest,
                       .bytes = head.bytes,
                       .sender = head.sender,
                       .round = head.round,
                       .number = head.number,
                       .code = head.code,
                       .culprit = head.culprit,
                       .text_bytes = static_cast<uint16_t>(text_bytes),
                       .kind = static_cast<uint8_t>(head.kind),
                       .reserved = 0};
  std::vector<std::byte> bytes(sizeof(fixed) + text_bytes);
  std::memcpy(bytes.data(), &fixed, sizeof(fixed));
  std::memcpy(bytes.data() + sizeof(fixed), head.text.data(), text_bytes);
  return bytes;
}

Outcome Decode(std::span<const std::byte> bytes, int32_t size, Head* head) {
  Fixed fixed;
  if (bytes.size() < sizeof(fixed)) {
    return Refused("want at least " + std::to_string(sizeof(fixed)) +
                   " bytes, got " + std::to_string(bytes.size()));
  }
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  if (fixed.magic != kMagic || fixed.reserved != 0) {
    return Refused("it is of another version");
  }
  if (fixed.kind < static_cast<uint8_t>(MessageKind::kGroup) ||
      fixed.kind > static_cast<uint8_t>(MessageKind::kWake)) {
    return Refused("there is no kind " + std::to_string(fixed.kind));
  }
  if (fixed.sender < 0 || fixed.sender >= size) {
    return Refused("want a sender in [0, " + std::to_string(size) + "), got " +
                   std::to_string(fixed.sender));
  }
  if (fixed.culprit < -1 || fixed.culprit >= size) {
    return Refused("want a culprit in [-1, " + std::to_string(size) +
                   "), got " + std::to_string(fixed.culprit));
  }
  // Or a group would be broken by nothing.
  const bool breaks = fixed.kind == static_cast<uint8_t>(MessageKind::kBreak);
  if (breaks && fixed.code < MUONSHARD_E_ARGUMENT) {
    return Refused("it breaks a group with code " + std::to_string(fixed.code) +
                   ", which is no error");
  }
  if (fixed.text_bytes > kTextBytesMax ||
      sizeof(fixed) + fixed.text_bytes != bytes.size()) {
    return Refused("want " + std::to_string(fixed.text_bytes) +
                   " bytes of text, got " +
                   std::to_string(bytes.size() - sizeof(fixed)));
  }
  *head = {.kind = static_cast<MessageKind>(fixed.kind),
           .sender = fixed.sender,
           .sequence = fixed.sequence,
           .round = fixed.round,
           .number = fixed.number,
           .digest = fixed.digest,
           .bytes = fixed.bytes,
           .code = fixed.code,
           .culprit = fixed.culprit};
  head->text.resize(fixed.text_bytes);
  std::memcpy(head->text.data(), bytes.data() + sizeof(fixed),
              fixed.text_bytes);
  return {};
}

}  // namespace muonshard::ucx
