// A plugin that has been opened: its table and its handle.
//
// Threads      The members never change; the table says what may be called
//              when.
// Memory       Shared by the Plugin, its communicators and their works, so that
//              it is closed after the last of them. The Runtime outlives it.

#ifndef COLLECTIVES_PLUGIN_INSTANCE_H_
#define COLLECTIVES_PLUGIN_INSTANCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/host_table.h"
#include "collectives/plugin_abi.h"
#include "collectives/runtime/runtime.h"

namespace muonshard {

class PluginInstance {
 public:
  // Loads the shared object at `path` and opens it with `options`, a JSON text.
  // kFailedPrecondition if it is no usable plugin, else what its `open` said.
  static absl::StatusOr<std::shared_ptr<const PluginInstance>> Open(
      const std::string& path, const std::string& options, Runtime& runtime);

  ~PluginInstance();
  PluginInstance(const PluginInstance&) = delete;
  PluginInstance& operator=(const PluginInstance&) = delete;

  const std::string& path() const { return path_; }
  const std::string& options() const { return options_; }
  Runtime& runtime() const { return runtime_; }
  const muonshard_plugin_table& table() const { return table_; }
  muonshard_plugin handle() const { return handle_; }
  // Guards the making of works' events, which is rare and short.
  Mutex& event_mutex() const { return *event_mutex_; }

  // What the plugin promises on this rank for host memory.
  absl::StatusOr<muonshard_caps> Caps() const;
  // What the plugin tells of itself; empty where it has no such slot.
  absl::StatusOr<std::string> Report() const;

 private:
  PluginInstance(std::string path, std::string options, Runtime& runtime);

  const std::string path_;
  const std::string options_;
  Runtime& runtime_;
  const std::unique_ptr<Mutex> event_mutex_;
  const HostTable host_;
  muonshard_plugin_table table_ = {};
  bool opened_ = false;
  muonshard_plugin handle_ = nullptr;
};

}  // namespace muonshard

#endif  // COLLECTIVES_PLUGIN_INSTANCE_H_
