#include "collectives/tcp/stranger_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/testing/recording_runtime.h"

namespace muonshard {
namespace {

using ::muonshard::testing::RecordingRuntime;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(StrangerLog, TellsOfTheFirstFromAnAddressAndCountsTheRest) {
  RecordingRuntime runtime(NewThreadsRuntime());
  {
    StrangerLog log(runtime, "store at host:7");
    for (int i = 0; i < 1000; ++i) log.Note("10.0.0.1", "garbage");
    EXPECT_THAT(runtime.TakeLines(),
                ElementsAre("1 store at host:7: turned away a stranger from "
                            "10.0.0.1: garbage"));
    log.Note("10.0.0.2", "silence");
    EXPECT_THAT(runtime.TakeLines(), ElementsAre(HasSubstr("10.0.0.2")));
  }
  EXPECT_THAT(runtime.TakeLines(),
              ElementsAre(HasSubstr("999 more connections")));
}

TEST(StrangerLog, SaysNothingAtTheEndOfStrangersItHasTold) {
  RecordingRuntime runtime(NewThreadsRuntime());
  { StrangerLog(runtime, "store").Note("10.0.0.1", "garbage"); }
  EXPECT_THAT(runtime.TakeLines(), SizeIs(1));
  { StrangerLog silent(runtime, "store"); }
  EXPECT_THAT(runtime.TakeLines(), IsEmpty());
}

TEST(StrangerLog, IsNotFilledFromManyAddresses) {
  RecordingRuntime runtime(NewThreadsRuntime());
  {
    StrangerLog log(runtime, "store");
    for (int i = 0; i < 1000; ++i) log.Note(absl::StrCat("fd00::", i), "flood");
  }
  EXPECT_THAT(runtime.TakeLines(), SizeIs(64 + 1));
}

}  // namespace
}  // namespace muonshard
