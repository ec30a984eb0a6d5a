#include "collectives/plugin_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace muonshard {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Folders(std::map<std::string, std::string> variables) {
  return PluginFolders("ucx", "/opt/bin/train", [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt
                                    : std::optional(found->second);
  });
}

TEST(PluginSearchTest, WithoutVariablesItSearchesWhereTheProgramLies) {
  EXPECT_THAT(Folders({}),
              ElementsAre("/opt/bin/train.runfiles/muonshard/plugins/ucx",
                          "/opt/bin", "/opt/bin/../lib/muonshard"));
}

TEST(PluginSearchTest, NamedFoldersComeBeforeRunfilesAndThoseBeforeTheRest) {
  EXPECT_THAT(Folders({{"MUONSHARD_PLUGIN_PATH", "/a::/b"},
                       {"RUNFILES_DIR", "/run"},
                       {"TEST_SRCDIR", "/test"}}),
              ElementsAre("/a", "/b", "/run/muonshard/plugins/ucx",
                          "/test/muonshard/plugins/ucx",
                          "/opt/bin/train.runfiles/muonshard/plugins/ucx",
                          "/opt/bin", "/opt/bin/../lib/muonshard"));
}

TEST(PluginSearchTest, AnEmptyVariableIsNotSet) {
  EXPECT_EQ(Folders({{"MUONSHARD_PLUGIN_PATH", ""}, {"RUNFILES_DIR", ""}}),
            Folders({}));
}

TEST(PluginSearchTest, ANameIsSoughtInFoldersAndAPathIsItself) {
  EXPECT_THAT(PluginPaths("ucx", {"/a", "/b"}),
              ElementsAre("/a/libmuonshard_ucx.so", "/b/libmuonshard_ucx.so"));
  EXPECT_THAT(PluginPaths("./mine.so", {"/a", "/b"}), ElementsAre("./mine.so"));
}

}  // namespace
}  // namespace muonshard
