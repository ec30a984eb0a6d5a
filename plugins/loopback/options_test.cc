#include "plugins/loopback/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muonshard::loopback {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OptionsTest, NothingMeansTheDefaults) {
  for (const char* json :
       {static_cast<const char*>(nullptr), "", " ", "{}", " { } \n"}) {
    Options options;
    EXPECT_TRUE(ReadOptions(json, &options).ok());
    EXPECT_EQ(options.small_bytes, Options().small_bytes);
    EXPECT_EQ(options.poll_ms, Options().poll_ms);
    EXPECT_EQ(options.checks, 0u);
    EXPECT_TRUE(options.faults.empty());
  }
}

TEST(OptionsTest, KeysThatAreGivenAreSetAndOthersKept) {
  Options options{.small_bytes = 7, .poll_ms = 8};
  EXPECT_TRUE(ReadOptions("{\"poll_ms\" : 250}", &options).ok());
  EXPECT_EQ(options.small_bytes, 7u);
  EXPECT_EQ(options.poll_ms, 250u);
  EXPECT_TRUE(
      ReadOptions("{\"small_bytes\":0,\t\"poll_ms\":12}", &options).ok());
  EXPECT_EQ(options.small_bytes, 0u);
  EXPECT_EQ(options.poll_ms, 12u);
}

TEST(OptionsTest, TheNetworkIsKeptAsItIsGiven) {
  Options options;
  EXPECT_TRUE(ReadOptions("{\"network\": \"hosts=2 lanes=1\", \"poll_ms\": 3}",
                          &options)
                  .ok());
  EXPECT_EQ(options.network, "hosts=2 lanes=1");
  EXPECT_EQ(options.poll_ms, 3u);
  EXPECT_TRUE(ReadOptions("{\"network\": \"\"}", &options).ok());
  EXPECT_EQ(options.network, "");
  const Outcome number = ReadOptions("{\"network\": 1}", &options);
  EXPECT_EQ(number.code, MUONSHARD_E_ARGUMENT);
  EXPECT_THAT(number.text, HasSubstr("\"network\" wants a string"));
}

TEST(OptionsTest, ThePlanOfFaultsIsAStringAndChecksAreOnOrOff) {
  Options options;
  EXPECT_TRUE(ReadOptions("{\"faults\": \"die rank=1 before=2; abort rank=0 "
                          "at=3\", \"checks\": 1}",
                          &options)
                  .ok());
  EXPECT_EQ(options.checks, 1u);
  ASSERT_EQ(options.faults.size(), 2u);
  EXPECT_EQ(options.faults[1].operation, 3u);
  EXPECT_TRUE(ReadOptions("{\"faults\": \"\"}", &options).ok());
  EXPECT_TRUE(options.faults.empty());
}

TEST(OptionsTest, ABadPlanSaysWhatIsKnown) {
  Options options;
  const Outcome outcome = ReadOptions("{\"faults\": \"die rank=1\"}", &options);
  EXPECT_EQ(outcome.code, MUONSHARD_E_ARGUMENT);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("loopback options: fault \"die rank=1\""),
                    HasSubstr("known: die rank=R before=N")));
}

TEST(OptionsTest, AnUnknownKeyIsRefusedBesideTheKnownOnes) {
  Options options;
  const Outcome outcome = ReadOptions("{\"smal_bytes\": 1}", &options);
  EXPECT_EQ(outcome.code, MUONSHARD_E_ARGUMENT);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("\"smal_bytes\""), HasSubstr("\"small_bytes\""),
                    HasSubstr("\"poll_ms\""), HasSubstr("\"checks\""),
                    HasSubstr("\"faults\"")));
}

TEST(OptionsTest, WhatIsNoObjectOfKnownValuesIsRefused) {
  for (const char* json :
       {"[]", "{", "{\"poll_ms\"", "{\"poll_ms\":1", "{\"poll_ms\":1,}",
        "{\"poll_ms\":-1}", "{\"poll_ms\":\"1\"}", "{\"poll_ms\":1.5}",
        "{\"poll_ms\":10000000000000}", "{\"poll_ms\":18446744073709551617}",
        "{\"poll_ms\":1} x", "{poll_ms:1}", "{\"poll_\\u006ds\":1}", "{,}", "1",
        "{\"checks\":2}", "{\"faults\":1}", "{\"faults\":\"die"}) {
    Options options;
    EXPECT_EQ(ReadOptions(json, &options).code, MUONSHARD_E_ARGUMENT) << json;
  }
}

}  // namespace
}  // namespace muonshard::loopback
