#include "tools/trainer/plugin_command.h"

#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/capabilities.h"
#include "collectives/collective.h"
#include "collectives/plugin.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/store.h"
#include "tools/trainer/flags.h"

namespace muonshard {
namespace {

absl::string_view YesNo(bool value) { return value ? "yes" : "no"; }

std::string PromisesOf(const Capabilities& promised) {
  std::string text;
  for (const auto& [name, value] :
       {std::pair("canonical", promised.canonical),
        std::pair("repeatable", promised.repeatable),
        std::pair("mismatch_detected", promised.mismatch_detected),
        std::pair("deadlock_detected", promised.deadlock_detected),
        std::pair("split", promised.split),
        std::pair("window", promised.window),
        std::pair("exact_counters", promised.exact_counters)}) {
    absl::StrAppend(&text, "  ", name, ": ", YesNo(value), "\n");
  }
  return text;
}

// Promises are known once a group exists; one of a single rank will do.
absl::StatusOr<std::string> Describe(const std::string& plugin_name,
                                     const std::string& plugin_options) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const absl::StatusOr<std::unique_ptr<Plugin>> plugin = Plugin::Open(
      PluginSearchFromEnvironment(plugin_name, plugin_options), *runtime);
  if (!plugin.ok()) return plugin.status();
  const std::unique_ptr<Store> store = NewInProcessStore(*runtime);
  GroupConfig config;
  config.store = store.get();
  config.deadline = runtime->Now() + absl::Minutes(1);
  const absl::StatusOr<std::unique_ptr<Collective>> group =
      (*plugin)->NewGroup(config);
  if (!group.ok()) return group.status();
  return absl::StrCat(
      "plugin:   ", (*plugin)->name(), "\nbuild:    ", (*plugin)->build(),
      "\npath:     ", (*plugin)->path(), "\npromises of a group of one rank:\n",
      PromisesOf((*group)->capabilities()));
}

}  // namespace

int PluginMain(std::span<const absl::string_view> arguments, std::ostream& out,
               std::ostream& errors) {
  std::string plugin_name;
  std::string plugin_options;
  FlagTable table;
  table.AddText("plugin", "NAME|PATH", "else $MUONSHARD_PLUGIN, else loopback",
                &plugin_name);
  table.AddText("plugin-options", "JSON", "else $MUONSHARD_PLUGIN_OPTIONS",
                &plugin_options);
  if (const absl::Status s = table.Parse(arguments); !s.ok()) {
    errors << "plugin: " << s.message() << "\n";
    return 2;
  }
  if (table.help_wanted()) {
    out << "Loads a plugin and shows what it promises.\n\nFlags:\n"
        << table.Help();
    return 0;
  }
  const absl::StatusOr<std::string> text =
      Describe(plugin_name, plugin_options);
  if (!text.ok()) {
    errors << "plugin: " << text.status().message() << "\n";
    return 1;
  }
  out << *text;
  return 0;
}

}  // namespace muonshard
