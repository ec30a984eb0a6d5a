#include "collectives/plugin_instance.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/plugin_library.h"
#include "collectives/plugin_status.h"

namespace muonshard {

PluginInstance::PluginInstance(std::string path, std::string options,
                               Runtime& runtime)
    : path_(std::move(path)),
      options_(std::move(options)),
      runtime_(runtime),
      host_(runtime) {}

absl::StatusOr<std::shared_ptr<const PluginInstance>> PluginInstance::Open(
    const std::string& path, const std::string& options, Runtime& runtime) {
  const absl::StatusOr<muonshard_entry_function> entry =
      LoadPluginLibrary(path);
  if (!entry.ok()) return entry.status();

  std::shared_ptr<PluginInstance> instance(
      new PluginInstance(path, options, runtime));
  const absl::StatusOr<muonshard_plugin_table> table =
      CallPluginEntry(*entry, *instance->host_.get());
  if (!table.ok()) return table.status();
  instance->table_ = *table;

  muonshard_status status = EmptyPluginStatus();
  muonshard_plugin handle = nullptr;
  const muonshard_code code = table->open(
      instance->host_.get(), instance->options_.c_str(), &handle, &status);
  if (code != MUONSHARD_OK) {
    return StatusFromPlugin(code, status,
                            absl::StrCat("plugin \"", table->name,
                                         "\" does not open with ", options),
                            /*in_operation=*/false);
  }
  instance->handle_ = handle;
  instance->opened_ = true;
  return std::shared_ptr<const PluginInstance>(std::move(instance));
}

PluginInstance::~PluginInstance() {
  if (opened_) table_.close(handle_);
}

absl::StatusOr<muonshard_caps> PluginInstance::Caps() const {
  muonshard_caps caps = {};
  caps.header.size = MUONSHARD_END(muonshard_caps, reserved);
  muonshard_status status = EmptyPluginStatus();
  const muonshard_code code = table_.caps(handle_, -1, &caps, &status);
  if (code != MUONSHARD_OK) {
    return StatusFromPlugin(
        code, status,
        absl::StrCat("capabilities of plugin \"", table_.name, "\""),
        /*in_operation=*/false);
  }
  return caps;
}

}  // namespace muonshard
