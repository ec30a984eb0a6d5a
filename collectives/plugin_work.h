// The Work of one operation of a plugin.
//
// Memory       Works keep the opened plugin, not their communicator: a group
//              ends with its Collective, and what has not ended by then ends
//              with kAborted.

#ifndef COLLECTIVES_PLUGIN_WORK_H_
#define COLLECTIVES_PLUGIN_WORK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/operation.h"
#include "collectives/plugin_abi.h"
#include "collectives/plugin_instance.h"
#include "collectives/runtime/event.h"
#include "collectives/work.h"

namespace muonshard {

// Group, rank and call, as errors begin: put into words once there is one.
struct CallName {
  std::shared_ptr<const std::string> group;  // With the rank.
  OperationKind kind = OperationKind::kBarrier;
  std::string label;
};
std::string ToString(const CallName& name);

class PluginWork final : public Work::State {
 public:
  // Takes `work` over, which a post gave.
  PluginWork(std::shared_ptr<const PluginInstance> plugin, muonshard_work work,
             CallName name);
  ~PluginWork() override;
  PluginWork(const PluginWork&) = delete;
  PluginWork& operator=(const PluginWork&) = delete;

  absl::Status Wait(absl::Time deadline) override;
  bool done() const override;
  Event event() override;

 private:
  const std::shared_ptr<const PluginInstance> plugin_;
  const muonshard_work work_;
  const CallName name_;
  // Guarded by the plugin's event mutex; made when an event is asked for.
  std::shared_ptr<EventSource> source_;
};

}  // namespace muonshard

#endif  // COLLECTIVES_PLUGIN_WORK_H_
