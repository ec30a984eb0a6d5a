#include "plugins/loopback/message.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace muonshard::loopback {
namespace {

constexpr uint64_t kHeadBytes = 3 * sizeof(uint64_t);
// Odd, so that multiplying by it loses nothing.
constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;

uint64_t Mixed(uint64_t sum, uint64_t word) {
  sum = (sum ^ word) * kMultiplier;
  return sum ^ (sum >> 32);
}

std::string Hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, value);
  return text;
}

}  // namespace

uint64_t Checksum(const Payload& payload) {
  uint64_t sum = 1;
  for (std::span<const std::byte> part : payload) {
    for (; part.size() >= sizeof(uint64_t);
         part = part.subspan(sizeof(uint64_t))) {
      uint64_t word = 0;
      std::memcpy(&word, part.data(), sizeof(word));
      sum = Mixed(sum, word);
    }
    for (const std::byte byte : part) {
      sum = Mixed(sum, static_cast<uint64_t>(byte));
    }
  }
  return sum;
}

Message MakeMessage(uint64_t sequence, const Payload& payload) {
  Message message = {
      .sequence = sequence, .bytes = kHeadBytes, .checksum = Checksum(payload)};
  for (const std::span<const std::byte> part : payload) {
    message.bytes += part.size();
  }
  return message;
}

Outcome Deliver(const Message& message, Fate::Message damage,
                const std::string& whose) {
  Message got = message;
  if (damage == Fate::Message::kShort) --got.bytes;
  if (damage == Fate::Message::kCorrupt) got.checksum ^= 1;
  std::string difference;
  if (got.bytes != message.bytes) {
    difference = "want " + std::to_string(message.bytes) + " bytes, got " +
                 std::to_string(got.bytes);
  } else if (got.checksum != message.checksum) {
    difference =
        "want checksum " + Hex(message.checksum) + ", got " + Hex(got.checksum);
  }
  if (difference.empty()) return {};
  return {.code = MUONSHARD_E_CORRUPT,
          .text = whose + " is damaged: " + difference,
          .sequence = message.sequence};
}

}  // namespace muonshard::loopback
