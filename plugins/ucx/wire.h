// The head of every message between ranks of a group.
//
// Format       The fields below as the machine has them, then the text. All
//              ranks of a group have one build and one byte order: `magic` is
//              wrong otherwise.
// Errors       A head that is cut short, of another version or out of range is
//              MUONSHARD_E_CORRUPT. Nothing of it is used.

#ifndef PLUGINS_UCX_WIRE_H_
#define PLUGINS_UCX_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugins/support/outcome.h"

namespace muonshard::ucx {

enum class MessageKind : uint8_t {
  kGroup = 1,  // Part of an operation of all ranks.
  kPair = 2,   // Part of a send.
  kBreak = 3,  // The group is broken; `text` says why.
  kLeave = 4,  // The sender has freed its communicator.
  kWake = 5,   // There is something in memory that both share.
};

struct Head {
  MessageKind kind = MessageKind::kGroup;
  int32_t sender = 0;
  // Of the operation: among those of all ranks, or of its pair.
  uint64_t sequence = 0;
  // Which message of the sender's to this rank in the operation.
  uint32_t round = 0;
  uint32_t number = 0;
  // Of the call: equal where ranks agree.
  uint64_t digest = 0;
  uint64_t bytes = 0;  // Of the payload.
  // Of kBreak.
  int32_t code = 0;
  int32_t culprit = -1;
  // The call in words, or the reason of a kBreak.
  std::string text;
};

// At most so much of a text travels.
inline constexpr size_t kTextBytesMax = 480;

std::vector<std::byte> Encode(const Head& head);

// `size`: of the group.
plugins::Outcome Decode(std::span<const std::byte> bytes, int32_t size,
                        Head* head);

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_WIRE_H_
