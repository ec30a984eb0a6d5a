// The Work of one operation of a plugin.

#ifndef COLLECTIVES_PLUGIN_WORK_H_
#define COLLECTIVES_PLUGIN_WORK_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/operation.h"
#include "collectives/plugin_abi.h"
#include "collectives/plugin_communicator.h"
#include "collectives/runtime/event.h"
#include "collectives/work.h"

namespace muonshard {

class PluginWork final : public Work::State {
 public:
  // Takes `work` over, which a post of `operation` to `communicator` gave.
  static Work Adopt(std::shared_ptr<PluginCommunicator> communicator,
                    muonshard_work work, const Operation& operation);

  PluginWork(std::shared_ptr<PluginCommunicator> communicator,
             muonshard_work work, std::string what);
  ~PluginWork() override;
  PluginWork(const PluginWork&) = delete;
  PluginWork& operator=(const PluginWork&) = delete;

  absl::Status Wait(absl::Time deadline) override;
  bool done() const override;
  Event event() override;

 private:
  const std::shared_ptr<PluginCommunicator> communicator_;
  const muonshard_work work_;
  // Group, rank and call, as errors begin.
  const std::string what_;
  std::optional<Event> event_;  // Guarded by the communicator's events_mutex_.
};

}  // namespace muonshard

#endif  // COLLECTIVES_PLUGIN_WORK_H_
