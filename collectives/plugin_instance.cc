#include "collectives/plugin_instance.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/plugin_library.h"
#include "collectives/plugin_status.h"

namespace muonshard {
namespace {

// Enough for a dozen ranks; more costs a second call.
constexpr size_t kReportBytesGuessed = 1024;

}  // namespace

PluginInstance::PluginInstance(std::string path, std::string options,
                               Runtime& runtime)
    : path_(std::move(path)),
      options_(std::move(options)),
      runtime_(runtime),
      event_mutex_(runtime.NewMutex()),
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

absl::StatusOr<std::string> PluginInstance::Report() const {
  if (table_.report == nullptr) return std::string();
  std::string text(kReportBytesGuessed, '\0');
  while (true) {
    muonshard_status status = EmptyPluginStatus();
    uint64_t bytes = 0;
    const muonshard_code code =
        table_.report(handle_, text.data(), text.size(), &bytes, &status);
    if (code != MUONSHARD_OK) {
      return StatusFromPlugin(
          code, status, absl::StrCat("report of plugin \"", table_.name, "\""),
          /*in_operation=*/false);
    }
    const bool whole = bytes <= text.size();
    text.resize(bytes);
    if (whole) return text;
    // It may have grown since it told its size; then this goes round again.
  }
}

}  // namespace muonshard
