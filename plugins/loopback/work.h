// One operation as one of its ranks has it, from its post to its end.
//
// Guarded by the domain's mutex, but for what is const. An outcome no longer
// changes once `ended` is set.

#ifndef PLUGINS_LOOPBACK_WORK_H_
#define PLUGINS_LOOPBACK_WORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/loopback/call.h"
#include "plugins/loopback/laboratory.h"
#include "plugins/loopback/outcome.h"

namespace muonshard::loopback {

class Communicator;

struct Work : std::enable_shared_from_this<Work> {
  struct Callback {
    muonshard_done_function function;
    void* argument;
  };

  Work(std::shared_ptr<Communicator> posted_to, Call posted, int32_t producers,
       const Fate& decided);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  const std::shared_ptr<Communicator> communicator;
  const Call call;
  const Fate fate;
  // Events that have not happened.
  int32_t unready;
  // Among the operations of all ranks, or among the messages of its pair.
  uint64_t sequence = 0;
  // Of a message: it waits for so many operations of all ranks to end.
  uint64_t gate = 0;
  // Its message has come to its peers, or there is none.
  bool delivered;
  bool lost = false;
  uint64_t input_checksum = 0;  // When it was delivered, under `checks`.
  bool ended = false;
  Outcome outcome;
  std::vector<Callback> callbacks;
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_WORK_H_
