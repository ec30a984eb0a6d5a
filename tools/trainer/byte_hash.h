// FNV-1a of 64 bits: tells bits that differ by accident, not by intent.

#ifndef TOOLS_TRAINER_BYTE_HASH_H_
#define TOOLS_TRAINER_BYTE_HASH_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace muonshard {

inline constexpr uint64_t kByteHashStart = 0xcbf29ce484222325;

// Of what `hash` is of, followed by `bytes`.
inline uint64_t HashBytes(uint64_t hash, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    hash ^= static_cast<uint64_t>(byte);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace muonshard

#endif  // TOOLS_TRAINER_BYTE_HASH_H_
