// Where the shared object of a plugin may lie.

#ifndef COLLECTIVES_PLUGIN_SEARCH_H_
#define COLLECTIVES_PLUGIN_SEARCH_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muonshard {

// The folders of PluginSearchFromEnvironment for the plugin called `name`, in
// the order in which they are searched. `program` is the path of this program's
// own file; `environment` gives the value of a variable, or nullopt where it is
// not set.
std::vector<std::string> PluginFolders(
    absl::string_view name, absl::string_view program,
    const std::function<std::optional<std::string>(const char* variable)>&
        environment);

// The paths at which `plugin` may lie: itself if it has a slash, else one in
// each folder.
std::vector<std::string> PluginPaths(absl::string_view plugin,
                                     const std::vector<std::string>& folders);

}  // namespace muonshard

#endif  // COLLECTIVES_PLUGIN_SEARCH_H_
