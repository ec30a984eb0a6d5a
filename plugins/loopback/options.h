// What a user may set: the JSON that goes to the plugin unread by the core.

#ifndef PLUGINS_LOOPBACK_OPTIONS_H_
#define PLUGINS_LOOPBACK_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/loopback/fault_plan.h"
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
  // 1: buffers are poisoned and compared. Of an opened plugin, as is `faults`.
  uint64_t checks = 0;
  std::vector<Fault> faults;
  // The network of model/network.h, on which operations take time and move no
  // data. Of an opened plugin too.
  std::string network;
};

// Reads a JSON object over `options`: whole numbers, and the plan of faults and
// the network as strings. Null and "" are "{}". A key that does not exist is
// refused, and the known ones are listed.
Outcome ReadOptions(const char* json, Options* options);

// Refuses what a group may not have otherwise than its plugin.
Outcome CheckOfGroup(const Options& options, const Options& opened);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_OPTIONS_H_
