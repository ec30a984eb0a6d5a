// The split of a group as it comes about: one request of each rank.
//
// Guarded by the domain's mutex.

#ifndef PLUGINS_LOOPBACK_SPLIT_H_
#define PLUGINS_LOOPBACK_SPLIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/loopback/communicator.h"

namespace muonshard::loopback {

struct Split {
  struct Request {
    bool came = false;
    int32_t color = 0;
    int32_t key = 0;
    std::string name;
    Communicator::Identity identity;
  };

  // Whether somebody waits in it.
  bool open() const { return came > 0 && !made; }

  std::vector<Request> requests;  // By rank.
  int32_t came = 0;
  bool made = false;
  std::vector<std::shared_ptr<Communicator>> children;  // Null: color -1.
  int32_t taken = 0;
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_SPLIT_H_
