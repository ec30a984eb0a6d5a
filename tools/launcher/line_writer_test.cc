#include "tools/launcher/line_writer.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace muonshard {
namespace {

TEST(LineWriterTest, PiecesBecomeWholeLines) {
  std::ostringstream out;
  LineWriter writer(out, "[3] ");
  writer.Add("a");
  EXPECT_EQ(out.str(), "");
  writer.Add("b\n\nc\nd");
  EXPECT_EQ(out.str(), "[3] ab\n[3] \n[3] c\n");
  writer.Finish();
  writer.Finish();
  EXPECT_EQ(out.str(), "[3] ab\n[3] \n[3] c\n[3] d\n");
}

TEST(LineWriterTest, ALineWithoutEndIsBroken) {
  std::ostringstream out;
  LineWriter writer(out, "");
  const std::string half(size_t{1} << 19, 'x');
  writer.Add(half);
  EXPECT_EQ(out.str(), "");
  writer.Add(half);
  EXPECT_EQ(out.str(), half + half + "\n");
}

}  // namespace
}  // namespace muonshard
