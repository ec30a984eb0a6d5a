#include "collectives/plugin.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/plugin_group.h"
#include "collectives/plugin_instance.h"
#include "collectives/plugin_search.h"

namespace muonshard {
namespace {

std::optional<std::string> ProcessEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

// The first that says something: the flag, the variable, the default.
std::string FirstGiven(absl::string_view flag, const char* variable,
                       absl::string_view otherwise) {
  if (!flag.empty()) return std::string(flag);
  const std::optional<std::string> value = ProcessEnvironment(variable);
  if (value.has_value() && !value->empty()) return *value;
  return std::string(otherwise);
}

class LoadedPlugin final : public Plugin {
 public:
  explicit LoadedPlugin(std::shared_ptr<const PluginInstance> instance)
      : instance_(std::move(instance)) {}

  absl::string_view name() const override { return instance_->table().name; }
  absl::string_view build() const override { return instance_->table().build; }
  absl::string_view path() const override { return instance_->path(); }

  absl::StatusOr<std::string> Report() const override {
    return instance_->Report();
  }

  absl::StatusOr<std::unique_ptr<Collective>> NewGroup(
      const GroupConfig& config) override {
    return NewPluginGroup(instance_, config);
  }

 private:
  const std::shared_ptr<const PluginInstance> instance_;
};

}  // namespace

PluginSearch PluginSearchFromEnvironment(absl::string_view plugin_flag,
                                         absl::string_view options_flag) {
  PluginSearch search;
  search.plugin = FirstGiven(plugin_flag, "MUONSHARD_PLUGIN", "loopback");
  search.options = FirstGiven(options_flag, "MUONSHARD_PLUGIN_OPTIONS", "");
  std::error_code unreadable;
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe", unreadable);
  search.folders = PluginFolders(search.plugin, program, ProcessEnvironment);
  return search;
}

absl::StatusOr<std::unique_ptr<Plugin>> Plugin::Open(const PluginSearch& search,
                                                     Runtime& runtime) {
  if (search.plugin.empty()) {
    return absl::NotFoundError("want the name or path of a plugin, got none");
  }
  const std::string options = search.options.empty() ? "{}" : search.options;
  std::string tried;
  for (const std::string& path : PluginPaths(search.plugin, search.folders)) {
    struct stat file;
    if (stat(path.c_str(), &file) != 0) {
      absl::StrAppend(&tried, "\n  ", path, ": ", std::strerror(errno));
      continue;
    }
    absl::StatusOr<std::shared_ptr<const PluginInstance>> instance =
        PluginInstance::Open(path, options, runtime);
    if (!instance.ok()) {
      return absl::Status(
          instance.status().code(),
          absl::StrCat("plugin \"", search.plugin, "\" does not load; tried:",
                       tried, "\n  ", path, ": ", instance.status().message()));
    }
    return std::make_unique<LoadedPlugin>(*std::move(instance));
  }
  return absl::NotFoundError(
      absl::StrCat("no plugin \"", search.plugin,
                   "\"; tried:", tried.empty() ? " no folder" : tried));
}

}  // namespace muonshard
