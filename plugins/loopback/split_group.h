// How the ranks of a group come together in smaller ones.
//
// Errors       MUONSHARD_E_TIMEOUT names the ranks that did not come; it breaks
//              the group, as does a color that has several names.

#ifndef PLUGINS_LOOPBACK_SPLIT_GROUP_H_
#define PLUGINS_LOOPBACK_SPLIT_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "plugins/loopback/communicator.h"
#include "plugins/loopback/outcome.h"

namespace muonshard::loopback {

struct SplitArguments {
  int32_t color = -1;  // -1: in no group.
  int32_t key = 0;
  std::string name;
  int64_t deadline_ns = INT64_MAX;
};

// Returns when all ranks of the parent's group have come. `made` is null for
// color -1.
Outcome SplitGroup(Communicator& parent, const SplitArguments& arguments,
                   std::shared_ptr<Communicator>* made);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_SPLIT_GROUP_H_
