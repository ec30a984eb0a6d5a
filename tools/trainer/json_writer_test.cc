#include "tools/trainer/json_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace muonshard {
namespace {

TEST(JsonWriterTest, NestedValuesHaveTheirCommas) {
  JsonWriter json;
  json.BeginObject();
  json.Key("list");
  json.BeginArray();
  json.Integer(-1);
  json.Unsigned(~uint64_t{0});
  json.BeginArray();
  json.EndArray();
  json.BeginObject();
  json.EndObject();
  json.Null();
  json.EndArray();
  json.BoolField("yes", true);
  json.BoolField("no", false);
  json.TextField("text", "t");
  json.EndObject();
  EXPECT_EQ(json.text(),
            "{\"list\": [-1,18446744073709551615,[],{},null],\"yes\": true,"
            "\"no\": false,\"text\": \"t\"}");
}

TEST(JsonWriterTest, NewLinesStandBetweenValues) {
  JsonWriter json;
  json.BeginArray();
  json.NewLine();
  json.Integer(1);
  json.NewLine();
  json.Integer(2);
  json.NewLine();
  json.EndArray();
  EXPECT_EQ(json.text(), "[\n1,\n2\n]");
}

TEST(JsonWriterTest, TextIsEscaped) {
  JsonWriter json;
  json.Text(absl::string_view("a\"b\\c\n\0d", 8));
  EXPECT_EQ(json.text(), "\"a\\\"b\\\\c\\u000a\\u0000d\"");
}

TEST(JsonWriterTest, NumbersReadBackAsTheSameBits) {
  for (const double value : {0.1, 1e300, -5e-324, 3.0, 2.0 / 3}) {
    JsonWriter json;
    json.Number(value);
    double read = 0;
    ASSERT_TRUE(absl::SimpleAtod(json.text(), &read));
    EXPECT_EQ(read, value);
  }
}

TEST(JsonWriterTest, WhatIsNotFiniteIsNull) {
  JsonWriter json;
  json.BeginArray();
  json.Number(std::numeric_limits<double>::quiet_NaN());
  json.Number(std::numeric_limits<double>::infinity());
  json.EndArray();
  EXPECT_EQ(json.text(), "[null,null]");
}

}  // namespace
}  // namespace muonshard
