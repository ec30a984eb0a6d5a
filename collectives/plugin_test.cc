#include "collectives/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/plugin_abi.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/testing/recording_runtime.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::RecordingRuntime;
using ::muonshard::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "collectives/testing";

std::string PathOf(absl::string_view plugin) {
  return absl::StrCat(kFolder, "/libmuonshard_", plugin, ".so");
}

class PluginTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Plugin>> OpenPath(absl::string_view path,
                                                   std::string options = "") {
    return Plugin::Open(
        {.plugin = std::string(path), .options = std::move(options)}, runtime_);
  }

  // What a plugin that keeps the contract does.
  void ExpectWorks(Plugin& plugin) {
    const absl::StatusOr<std::unique_ptr<Collective>> group =
        plugin.NewGroup({});
    ASSERT_THAT(group, IsOk());
    const std::vector<float> in = {1, 2, 3};
    std::vector<float> out(3);
    const absl::StatusOr<Work> work =
        (*group)->AllReduce(ConstBuffer::Of<float>(in),
                            MutableBuffer::Of<float>(out), Reduction::Sum());
    ASSERT_THAT(work, IsOk());
    EXPECT_THAT(work->Wait(absl::InfiniteFuture()), IsOk());
    EXPECT_THAT(out, ElementsAre(1, 2, 3));
  }

  // That the plugin is refused with its path and all of `texts`.
  void ExpectRefused(absl::string_view plugin,
                     const std::vector<std::string>& texts) {
    const auto opened = OpenPath(PathOf(plugin));
    EXPECT_THAT(opened, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 PathOf(plugin)));
    for (const std::string& text : texts) {
      EXPECT_THAT(std::string(opened.status().message()), HasSubstr(text));
    }
  }

  RecordingRuntime runtime_{NewThreadsRuntime()};
};

TEST_F(PluginTest, APluginInPlainCWorks) {
  const auto plugin = OpenPath(PathOf("solo"));
  ASSERT_THAT(plugin, IsOk());
  EXPECT_EQ((*plugin)->name(), "solo");
  EXPECT_EQ((*plugin)->build(), "1");
  EXPECT_EQ((*plugin)->path(), PathOf("solo"));
  ExpectWorks(**plugin);
}

TEST_F(PluginTest, APluginOfAnOlderMinorVersionWorks) {
  const auto plugin = OpenPath(PathOf("older_minor"));
  ASSERT_THAT(plugin, IsOk());
  ExpectWorks(**plugin);
}

TEST_F(PluginTest, APluginOfANewerMinorVersionWorks) {
  const auto plugin = OpenPath(PathOf("newer_minor"));
  ASSERT_THAT(plugin, IsOk());
  ExpectWorks(**plugin);
}

TEST_F(PluginTest, AnEntryMayLogBeforeAnythingElse) {
  const auto plugin = OpenPath(PathOf("logging"));
  ASSERT_THAT(plugin, IsOk());
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre("1 hello from the entry"));
}

TEST_F(PluginTest, ATruncatedTableIsRefusedWithBothSizes) {
  ExpectRefused("truncated_table",
                {absl::StrCat(MUONSHARD_END(muonshard_plugin_table, post)),
                 absl::StrCat(MUONSHARD_END(muonshard_plugin_table, report))});
}

TEST_F(PluginTest, AnEmptySlotIsRefusedByName) {
  ExpectRefused("null_slot", {"\"work_wait\"", "empty"});
}

TEST_F(PluginTest, AnotherMajorVersionIsRefusedWithBothVersions) {
  const std::string ours =
      absl::StrCat(MUONSHARD_ABI_MAJOR, ".", MUONSHARD_ABI_MINOR);
  ExpectRefused("wrong_major", {absl::StrCat("2.", MUONSHARD_ABI_MINOR), ours});
  ExpectRefused("newer_major", {"muonshard_plugin_entry_v2", ours});
}

TEST_F(PluginTest, ASizeThatIsNoSizeIsRefused) {
  ExpectRefused("garbage_size", {absl::StrCat(0xDEADBEEF)});
}

TEST_F(PluginTest, AnExceptionOfTheEntryIsAnErrorWithItsText) {
  ExpectRefused("throwing", {"threw", "out of luck"});
}

TEST_F(PluginTest, AnEntryThatRefusesIsHeard) {
  ExpectRefused("refusing", {"no such device"});
}

TEST_F(PluginTest, AMissingDependencyIsNamed) {
  ExpectRefused("missing_dependency", {"libmuonshard_absent_dependency.so.1"});
}

TEST_F(PluginTest, ASharedObjectWithoutAnEntryIsNoPlugin) {
  ExpectRefused("no_entry", {MUONSHARD_ENTRY_NAME});
}

TEST_F(PluginTest, AFileThatIsNoSharedObjectIsNoPlugin) {
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/libmuonshard_text.so");
  std::ofstream(path) << "not a shared object";
  EXPECT_THAT(OpenPath(path),
              StatusIs(absl::StatusCode::kFailedPrecondition, path));
}

TEST_F(PluginTest, APathWithoutAFileIsNotFound) {
  EXPECT_THAT(OpenPath("./absent.so"), StatusIs(absl::StatusCode::kNotFound,
                                                "./absent.so: No such file"));
}

TEST_F(PluginTest, ANameIsSoughtInEachFolderInOrder) {
  const auto plugin = Plugin::Open(
      {.plugin = "solo", .folders = {"/absent", kFolder, "/later"}}, runtime_);
  ASSERT_THAT(plugin, IsOk());
  EXPECT_EQ((*plugin)->path(), PathOf("solo"));
}

TEST_F(PluginTest, ANameThatIsNowhereListsEveryPathTried) {
  const auto opened = Plugin::Open(
      {.plugin = "absent", .folders = {"/first", "/second"}}, runtime_);
  EXPECT_THAT(opened, StatusIs(absl::StatusCode::kNotFound, "\"absent\""));
  EXPECT_THAT(std::string(opened.status().message()),
              AllOf(HasSubstr("/first/libmuonshard_absent.so: No such file"),
                    HasSubstr("/second/libmuonshard_absent.so: No such file")));
}

TEST_F(PluginTest, AFileThatDoesNotLoadIsNotPassedOverForALaterOne) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/broken");
  std::filesystem::create_directories(folder);
  const std::string broken = absl::StrCat(folder, "/libmuonshard_solo.so");
  std::ofstream(broken) << "not a shared object";
  const auto opened = Plugin::Open(
      {.plugin = "solo", .folders = {"/absent", folder, kFolder}}, runtime_);
  EXPECT_THAT(opened, StatusIs(absl::StatusCode::kFailedPrecondition, broken));
  EXPECT_THAT(std::string(opened.status().message()),
              HasSubstr("/absent/libmuonshard_solo.so"));
}

TEST_F(PluginTest, NoNameIsNotFound) {
  EXPECT_THAT(OpenPath(""), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Plugin::Open({.plugin = "solo"}, runtime_),
              StatusIs(absl::StatusCode::kNotFound, "no folder"));
}

TEST_F(PluginTest, OptionsGoToThePluginUnread) {
  EXPECT_THAT(OpenPath(PathOf("solo"), "{\"refuse\": true}"),
              StatusIs(absl::StatusCode::kInvalidArgument, "as was asked"));
}

TEST_F(PluginTest, CopiesOfOneFileAreIndependent) {
  const std::string copy =
      absl::StrCat(::testing::TempDir(), "/libmuonshard_copy.so");
  std::filesystem::copy_file(PathOf("solo"), copy,
                             std::filesystem::copy_options::overwrite_existing);
  auto original = OpenPath(PathOf("solo"));
  const auto second = OpenPath(copy);
  const auto again = OpenPath(PathOf("solo"));
  ASSERT_THAT(original, IsOk());
  ASSERT_THAT(second, IsOk());
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ((*second)->path(), copy);
  original->reset();
  ExpectWorks(**second);
  ExpectWorks(**again);
}

TEST_F(PluginTest, APluginIsClosedAfterTheLastGroupAndWork) {
  auto plugin = OpenPath(PathOf("solo"));
  ASSERT_THAT(plugin, IsOk());
  auto group = (*plugin)->NewGroup({});
  ASSERT_THAT(group, IsOk());
  plugin->reset();
  auto work = (*group)->Barrier();
  ASSERT_THAT(work, IsOk());
  group->reset();
  EXPECT_THAT(work->Wait(absl::InfiniteFuture()), IsOk());
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre("0 post of 1"));
  *work = Work();
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre("0 closed"));
}

TEST_F(PluginTest, AWrongGroupIsRefusedBeforeThePluginIsAsked) {
  const auto plugin = OpenPath(PathOf("solo"));
  ASSERT_THAT(plugin, IsOk());
  const auto refusal = [&](const GroupConfig& config) {
    const auto group = (*plugin)->NewGroup(config);
    EXPECT_THAT(group, StatusIs(absl::StatusCode::kInvalidArgument));
    return std::string(group.status().message());
  };
  EXPECT_THAT(refusal({.size = 0}), HasSubstr("got 0"));
  EXPECT_THAT(refusal({.rank = Rank{1}}), HasSubstr("got 1"));
  EXPECT_THAT(refusal({.rank = Rank{-1}}), HasSubstr("got -1"));
  EXPECT_THAT(refusal({.name = ""}), HasSubstr("name"));
  EXPECT_THAT(refusal({.name = "a b"}), HasSubstr("name"));
  EXPECT_THAT(refusal({.size = 2}), HasSubstr("at most 1"));
}

TEST_F(PluginTest, AGroupThatThePluginCannotMakeIsItsError) {
  const auto plugin = OpenPath(PathOf("solo"));
  ASSERT_THAT(plugin, IsOk());
  EXPECT_THAT((*plugin)->NewGroup({.name = "refused"}),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "nobody came"));
}

TEST_F(PluginTest, CapabilitiesThatThePluginCannotTellAreItsError) {
  const auto plugin = OpenPath(PathOf("solo"), "{\"no caps\": true}");
  ASSERT_THAT(plugin, IsOk());
  const auto group = (*plugin)->NewGroup({});
  EXPECT_THAT(group, StatusIs(absl::StatusCode::kInternal, "no device to ask"));
  EXPECT_THAT(std::string(group.status().message()),
              HasSubstr("capabilities of plugin"));
}

TEST_F(PluginTest, AReportLongerThanTheFirstGuessComesWhole) {
  const auto plugin = OpenPath(PathOf("solo"));
  ASSERT_THAT(plugin, IsOk());
  std::string wanted;
  for (int i = 0; i < 1000; ++i) wanted += "solo: 1\n";
  const auto report = (*plugin)->Report();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(*report, wanted);
}

TEST_F(PluginTest, APluginOfAnOlderMinorVersionReportsNothing) {
  const auto plugin = OpenPath(PathOf("older_minor"));
  ASSERT_THAT(plugin, IsOk());
  const auto report = (*plugin)->Report();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(*report, "");
}

TEST_F(PluginTest, AReportThatThePluginCannotMakeIsItsError) {
  const auto plugin = OpenPath(PathOf("solo"), "{\"no report\": true}");
  ASSERT_THAT(plugin, IsOk());
  const auto report = (*plugin)->Report();
  EXPECT_THAT(report, StatusIs(absl::StatusCode::kInternal, "nothing to tell"));
  EXPECT_THAT(std::string(report.status().message()),
              HasSubstr("report of plugin \"solo\""));
}

TEST_F(PluginTest, AGroupMayUseTheCallersStore) {
  const std::unique_ptr<Store> store = NewInProcessStore(runtime_);
  const auto plugin = OpenPath(PathOf("solo"));
  ASSERT_THAT(plugin, IsOk());
  const auto group =
      (*plugin)->NewGroup({.name = "mine", .store = store.get()});
  ASSERT_THAT(group, IsOk());
  EXPECT_EQ((*group)->name(), "mine");
  EXPECT_EQ((*group)->size(), 1);
  EXPECT_EQ((*group)->rank(), Rank{0});
  EXPECT_EQ(&(*group)->runtime(), &runtime_);
}

TEST_F(PluginTest, FlagsComeBeforeTheEnvironmentAndItBeforeDefaults) {
  unsetenv("MUONSHARD_PLUGIN");
  unsetenv("MUONSHARD_PLUGIN_OPTIONS");
  EXPECT_EQ(PluginSearchFromEnvironment("", "").plugin, "loopback");
  EXPECT_EQ(PluginSearchFromEnvironment("", "").options, "");
  setenv("MUONSHARD_PLUGIN", "solo", 1);
  setenv("MUONSHARD_PLUGIN_OPTIONS", "{\"refuse\": true}", 1);
  setenv("MUONSHARD_PLUGIN_PATH", kFolder, 1);
  const PluginSearch search = PluginSearchFromEnvironment("", "");
  EXPECT_EQ(search.plugin, "solo");
  EXPECT_EQ(search.options, "{\"refuse\": true}");
  EXPECT_EQ(PluginSearchFromEnvironment("ucx", "{}").plugin, "ucx");
  EXPECT_EQ(PluginSearchFromEnvironment("ucx", "{}").options, "{}");
  EXPECT_THAT(Plugin::Open(search, runtime_),
              StatusIs(absl::StatusCode::kInvalidArgument, PathOf("solo")));
  EXPECT_THAT(Plugin::Open(PluginSearchFromEnvironment("solo", "{}"), runtime_),
              IsOk());
  unsetenv("MUONSHARD_PLUGIN");
  unsetenv("MUONSHARD_PLUGIN_OPTIONS");
  unsetenv("MUONSHARD_PLUGIN_PATH");
}

}  // namespace
}  // namespace muonshard
