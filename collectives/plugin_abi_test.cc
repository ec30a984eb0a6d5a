// The ABI does not change by accident: every offset, size and value is as
// written down in plugin_abi_golden.txt, in C11 and in C++20.

#include "collectives/plugin_abi.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "collectives/testing/abi_layout.h"
#include "collectives/testing/abi_layout_c11.h"

namespace muonshard {
namespace {

constexpr char kGolden[] = "collectives/plugin_abi_golden.txt";

std::string Golden() {
  std::ifstream file(kGolden);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string LayoutInCpp() {
  const auto text = std::make_unique<abi_text>();
  abi_layout(text.get());
  EXPECT_LT(text->used, sizeof(text->bytes)) << "the text is cut";
  return text->bytes;
}

TEST(PluginAbiTest, NothingChangesWithoutANewVersion) {
  EXPECT_EQ(LayoutInCpp(), Golden())
      << "A minor version only appends, and " << kGolden
      << " grows with it; a major one starts a file of its own.";
}

TEST(PluginAbiTest, COfTheYear2011SeesTheSame) {
  EXPECT_EQ(std::string(abi_layout_c11()), LayoutInCpp());
}

TEST(PluginAbiTest, TheEntryIsNamedAfterTheMajorVersion) {
  EXPECT_EQ(std::string(MUONSHARD_ENTRY_NAME),
            "muonshard_plugin_entry_v" + std::to_string(MUONSHARD_ABI_MAJOR));
}

TEST(PluginAbiTest, AStructIsLongEnoughForItsOwnFieldsOnly) {
  muonshard_caps caps = {};
  caps.header.size = MUONSHARD_END(muonshard_caps, features);
  EXPECT_TRUE(MUONSHARD_HAS(&caps, muonshard_caps, features));
  EXPECT_FALSE(MUONSHARD_HAS(&caps, muonshard_caps, ranks_max));
}

}  // namespace
}  // namespace muonshard
