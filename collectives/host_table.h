// A Runtime as a plugin sees it: the host table of plugin_abi.h.
//
// Threads      The functions of the table from any task.
// Memory       The table lives as long as this object, and the Runtime longer.
//              A plugin frees what it makes.
// Errors       What cannot be made is null. No exception leaves a function.

#ifndef COLLECTIVES_HOST_TABLE_H_
#define COLLECTIVES_HOST_TABLE_H_

#include "collectives/plugin_abi.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/runtime.h"

namespace muonshard {

class HostTable {
 public:
  explicit HostTable(Runtime& runtime);
  HostTable(const HostTable&) = delete;
  HostTable& operator=(const HostTable&) = delete;

  const muonshard_host* get() const { return &table_; }

 private:
  muonshard_host table_;
};

// The handle of `event` in a muonshard_operation. Valid while `event` is.
muonshard_event EventHandle(const Event& event);

}  // namespace muonshard

#endif  // COLLECTIVES_HOST_TABLE_H_
