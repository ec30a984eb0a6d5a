// Finds, loads and opens plugins, and makes groups with them.
//
// Lookup       A name without a slash is sought as libmuonshard_NAME.so in
//              PluginSearch::folders, in order; a name with one is a path. A
//              plugin that was named and does not load is an error that lists
//              every path tried and why it failed. There is no fallback.
// Lifetime     Shared objects are loaded with RTLD_NOW and RTLD_LOCAL and never
//              unloaded. An opened Plugin outlives its groups, and its Runtime
//              outlives it.
// Threads      `Open` from one task at a time; `NewGroup` from any.
// Errors       kNotFound            no such file in any folder
//              kFailedPrecondition  it exists, but is no usable plugin: missing
//                                   dependency, no entry, another major
//                                   version, a table that is too short or has
//                                   an empty slot; the text says which
//              kInvalidArgument     rank, size or name is wrong
//              kDeadlineExceeded    a rank did not come; the text says who

#ifndef COLLECTIVES_PLUGIN_H_
#define COLLECTIVES_PLUGIN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/runtime/runtime.h"
#include "collectives/store.h"

namespace muonshard {

struct PluginSearch {
  // A name or a path.
  std::string plugin;
  // JSON for the plugin, which the core does not read. Empty: "{}".
  std::string options;
  std::vector<std::string> folders;
};

// What to load and where to look, from flags and environment: `plugin_flag`,
// else $MUONSHARD_PLUGIN, else "loopback"; `options_flag`, else
// $MUONSHARD_PLUGIN_OPTIONS; folders are those of $MUONSHARD_PLUGIN_PATH
// (colons between), then the program's runfiles, its own folder, and the
// install folder beside it, ../lib/muonshard.
PluginSearch PluginSearchFromEnvironment(absl::string_view plugin_flag,
                                         absl::string_view options_flag);

struct GroupConfig {
  Rank rank{};
  int32_t size = 1;
  // Unique among live groups of the store, equal on all ranks.
  std::string name = "world";
  absl::Time deadline = absl::InfiniteFuture();
  // Outlives the group.
  Store* store = nullptr;
};

class Plugin {
 public:
  static absl::StatusOr<std::unique_ptr<Plugin>> Open(
      const PluginSearch& search, Runtime& runtime);

  virtual ~Plugin() = default;

  virtual absl::string_view name() const = 0;   // "loopback"
  virtual absl::string_view build() const = 0;  // Version, for a person.
  virtual absl::string_view path() const = 0;   // Of the shared object.

  // What the plugin tells of itself, one "name: value" a line; empty for one
  // that tells nothing.
  virtual absl::StatusOr<std::string> Report() const = 0;

  // Joins the group; returns when all its ranks have. A collective call.
  virtual absl::StatusOr<std::unique_ptr<Collective>> NewGroup(
      const GroupConfig& config) = 0;
};

}  // namespace muonshard

#endif  // COLLECTIVES_PLUGIN_H_
