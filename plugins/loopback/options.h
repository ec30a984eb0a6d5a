// What a user may set: the JSON that goes to the plugin unread by the core.

#ifndef PLUGINS_LOOPBACK_OPTIONS_H_
#define PLUGINS_LOOPBACK_OPTIONS_H_

#include <cstdint>

#include "plugins/loopback/outcome.h"

namespace muonshard::loopback {

struct Options {
  // An operation that reads and writes at most so many bytes, over all ranks,
  // is run by the last rank to arrive, inside the call that made it arrive.
  // Below this a hand-off to another task costs more than the operation.
  uint64_t small_bytes = 64 * 1024;
  // A wait that gives up by itself within this time is a poll: its program
  // goes on, so it never counts towards a deadlock.
  uint64_t poll_ms = 1000;
};

// Reads a JSON object of whole numbers over `options`. Null and "" are "{}". A
// key that does not exist is refused, and the known ones are listed.
Outcome ReadOptions(const char* json, Options* options);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_OPTIONS_H_
