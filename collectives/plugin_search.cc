#include "collectives/plugin_search.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muonshard {

std::vector<std::string> PluginFolders(
    absl::string_view name, absl::string_view program,
    const std::function<std::optional<std::string>(const char* variable)>&
        environment) {
  std::vector<std::string> folders;
  const auto value = [&environment](const char* variable) {
    return environment(variable).value_or("");
  };
  const std::string plugin_path = value("MUONSHARD_PLUGIN_PATH");
  for (const absl::string_view folder :
       absl::StrSplit(plugin_path, ':', absl::SkipEmpty())) {
    folders.emplace_back(folder);
  }
  // The build puts a plugin into the runfiles of programs and tests that name
  // it as data, under the folder of its target.
  for (const std::string& runfiles :
       {value("RUNFILES_DIR"), value("TEST_SRCDIR"),
        absl::StrCat(program, ".runfiles")}) {
    if (runfiles.empty()) continue;
    folders.push_back(absl::StrCat(runfiles, "/muonshard/plugins/", name));
  }
  const std::string own_folder =
      std::filesystem::path(std::string(program)).parent_path();
  folders.push_back(own_folder);
  folders.push_back(absl::StrCat(own_folder, "/../lib/muonshard"));
  return folders;
}

std::vector<std::string> PluginPaths(absl::string_view plugin,
                                     const std::vector<std::string>& folders) {
  if (plugin.find('/') != absl::string_view::npos) {
    return {std::string(plugin)};
  }
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    paths.push_back(absl::StrCat(folder, "/libmuonshard_", plugin, ".so"));
  }
  return paths;
}

}  // namespace muonshard
