// What the option `checks` does to the buffers of an operation and to memory.
//
// In this file
//   poison   bytes of 0xff: not a number, in every floating type
//
// A buffer that is input and output at once is neither poisoned nor compared:
// the operation itself writes to it.

#ifndef PLUGINS_LOOPBACK_CHECKS_H_
#define PLUGINS_LOOPBACK_CHECKS_H_

#include <cstddef>
#include <cstdint>

#include "plugins/loopback/call.h"
#include "plugins/loopback/message.h"
#include "plugins/loopback/outcome.h"

namespace muonshard::loopback {

// What the operation reads and does not write.
Payload InputOf(const Call& call);

// Fills what the operation writes and does not read, and nothing between its
// segments.
void PoisonOutput(const Call& call);

// Memory between two guards, full of poison, aligned as operator new with
// kMemoryAlignment.
inline constexpr size_t kMemoryAlignment = 64;
void* NewGuardedMemory(uint64_t bytes);
// OK, or MUONSHARD_E_CORRUPT if a guard was written to.
Outcome CheckGuards(const void* memory, uint64_t bytes);
void FreeGuardedMemory(void* memory);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_CHECKS_H_
