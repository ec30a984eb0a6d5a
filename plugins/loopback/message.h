// What a rank contributes to an operation, as it would travel to its peers: a
// head and the payload. Ranks of one process read each other's memory, so that
// only the head is ever made, and only in the laboratory.

#ifndef PLUGINS_LOOPBACK_MESSAGE_H_
#define PLUGINS_LOOPBACK_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugins/loopback/laboratory.h"
#include "plugins/loopback/outcome.h"

namespace muonshard::loopback {

using Payload = std::vector<std::span<const std::byte>>;

struct Message {
  uint64_t sequence = 0;  // Of the operation, in its group.
  uint64_t bytes = 0;     // Of the head too, so that no message is empty.
  uint64_t checksum = 0;  // Of the payload.
};

// Changes with every single byte, and with their order.
uint64_t Checksum(const Payload& payload);

Message MakeMessage(uint64_t sequence, const Payload& payload);

// OK, or MUONSHARD_E_CORRUPT with what was wanted and got, if it is damaged on
// its way. `whose` is "the message of rank 2 to operation 4".
Outcome Deliver(const Message& message, Fate::Message damage,
                const std::string& whose);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_MESSAGE_H_
