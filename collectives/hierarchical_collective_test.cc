// The core's side of a hierarchy, on a plugin in plain C whose groups have one
// rank.

#include "collectives/hierarchical_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/batch.h"
#include "collectives/plugin.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/testing/recording_runtime.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::RecordingRuntime;
using ::muonshard::testing::StatusIs;
using ::testing::ElementsAre;

using Kind = OperationKind;

constexpr char kSolo[] = "collectives/testing/libmuonshard_solo.so";

class HierarchicalCollectiveTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Plugin> NewPlugin(Runtime& runtime) {
    auto plugin = Plugin::Open({.plugin = kSolo}, runtime);
    EXPECT_THAT(plugin, IsOk());
    return *std::move(plugin);
  }
  static std::unique_ptr<Collective> NewGroup(Plugin& plugin,
                                              std::string name) {
    auto group = plugin.NewGroup({.name = std::move(name)});
    EXPECT_THAT(group, IsOk());
    return *std::move(group);
  }
  HierarchyLevels Levels() {
    return {.whole = NewGroup(*plugin_, "world"),
            .host_level = NewGroup(*plugin_, "host"),
            .lane_level = NewGroup(*lane_plugin_, "lane")};
  }
  std::unique_ptr<Collective> NewHierarchy() {
    auto hierarchy = NewHierarchicalCollective(Levels());
    EXPECT_THAT(hierarchy, IsOk());
    runtime_.TakeLines();
    return *std::move(hierarchy);
  }
  static bool Promises(uint64_t bits, auto value) {
    return (bits >> static_cast<uint32_t>(value) & 1) != 0;
  }
  absl::StatusOr<Work> Scatter(CallOptions options = {}) {
    return group_->ReduceScatterV(ConstBuffer::Of<float>(in_),
                                  MutableBuffer::Of<float>(out_), {3},
                                  Reduction::Sum(), std::move(options));
  }

  RecordingRuntime runtime_{NewThreadsRuntime()};
  const std::unique_ptr<Plugin> plugin_ = NewPlugin(runtime_);
  const std::unique_ptr<Plugin> lane_plugin_ = NewPlugin(runtime_);
  std::unique_ptr<Collective> group_ = NewHierarchy();
  const std::vector<float> in_ = {1, 2, 3};
  std::vector<float> out_ = std::vector<float>(3);
};

TEST_F(HierarchicalCollectiveTest, ItIsTheWholeGroup) {
  EXPECT_EQ(group_->name(), "world");
  EXPECT_EQ(group_->rank(), Rank{0});
  EXPECT_EQ(group_->size(), 1);
  EXPECT_EQ(&group_->runtime(), &runtime_);
  EXPECT_THAT(group_->Health(), IsOk());
}

TEST_F(HierarchicalCollectiveTest, ItPromisesWhatItCanMakeOfItsLevels) {
  const Capabilities& promises = group_->capabilities();
  EXPECT_TRUE(promises.canonical);
  EXPECT_TRUE(promises.repeatable);
  EXPECT_TRUE(promises.exact_counters);
  EXPECT_FALSE(promises.mismatch_detected);
  EXPECT_FALSE(promises.deadlock_detected);
  EXPECT_TRUE(Promises(promises.operations, Kind::kAllReduce));
  EXPECT_FALSE(Promises(promises.operations, Kind::kBroadcast));
  EXPECT_TRUE(Promises(promises.data_types, DataType::kF32));
  EXPECT_FALSE(Promises(promises.data_types, DataType::kF64));
  EXPECT_TRUE(Promises(promises.reductions, ReductionKind::kMax));
}

TEST_F(HierarchicalCollectiveTest, AMissingLevelIsRefused) {
  const auto refused = [](HierarchyLevels levels) {
    return NewHierarchicalCollective(std::move(levels)).status();
  };
  HierarchyLevels levels = Levels();
  levels.whole.reset();
  EXPECT_THAT(refused(std::move(levels)),
              StatusIs(absl::StatusCode::kInvalidArgument, "whole group"));
  levels = Levels();
  levels.host_level.reset();
  EXPECT_THAT(refused(std::move(levels)),
              StatusIs(absl::StatusCode::kInvalidArgument, "host level"));
  levels = Levels();
  levels.lane_level.reset();
  EXPECT_THAT(refused(std::move(levels)),
              StatusIs(absl::StatusCode::kInvalidArgument, "lane level"));
}

TEST_F(HierarchicalCollectiveTest, ALevelOnAnotherRuntimeIsRefused) {
  const std::unique_ptr<Runtime> other = NewThreadsRuntime();
  const std::unique_ptr<Plugin> plugin = NewPlugin(*other);
  HierarchyLevels levels = Levels();
  levels.lane_level = NewGroup(*plugin, "lane");
  EXPECT_THAT(NewHierarchicalCollective(std::move(levels)),
              StatusIs(absl::StatusCode::kInvalidArgument, "one runtime"));
}

TEST_F(HierarchicalCollectiveTest, ManyCallsAreOnePostForEachLevelAndPlugin) {
  constexpr size_t kBuckets = 7;
  std::vector<std::vector<float>> out(kBuckets, std::vector<float>(3));
  for (const Kind kind :
       {Kind::kReduceScatterV, Kind::kAllGatherV, Kind::kAllReduce}) {
    Batch batch;
    for (std::vector<float>& bucket : out) {
      Operation operation = {.kind = kind,
                             .data_type = DataType::kF32,
                             .in = ConstBuffer::Of<float>(in_),
                             .out = MutableBuffer::Of<float>(bucket)};
      if (kind == Kind::kReduceScatterV) operation.in_counts = {3};
      if (kind == Kind::kAllGatherV) operation.out_counts = {3};
      ASSERT_THAT(batch.Add(*group_, std::move(operation)), IsOk());
    }
    const auto works = batch.Post();
    ASSERT_THAT(works, IsOk());
    const std::vector<std::string> posts(kind == Kind::kAllReduce ? 3 : 2,
                                         "0 post of 7");
    EXPECT_EQ(runtime_.TakeLines(), posts);
    for (const Work& work : *works) {
      EXPECT_THAT(work.Wait(absl::InfiniteFuture()), IsOk());
    }
    for (std::vector<float>& bucket : out) {
      EXPECT_EQ(bucket, in_);
      bucket.assign(3, 0);
    }
  }
}

TEST_F(HierarchicalCollectiveTest, WhatItCallsWithIsReadyFirst) {
  EventSource gate(runtime_);
  const auto work = Scatter({.ready = {gate.event()}});
  ASSERT_THAT(work, IsOk());
  const auto barrier = group_->Barrier();
  ASSERT_THAT(barrier, IsOk());
  EXPECT_FALSE(work->done());
  // It has a communicator of its own and waits all the same.
  EXPECT_FALSE(barrier->done());
  EXPECT_THAT(out_, ElementsAre(0, 0, 0));
  gate.Complete(absl::OkStatus());
  EXPECT_TRUE(work->done());
  EXPECT_TRUE(barrier->done());
  EXPECT_THAT(out_, ElementsAre(1, 2, 3));
}

TEST_F(HierarchicalCollectiveTest, ACallAfterABarrierWaitsForIt) {
  EventSource gate(runtime_);
  const auto barrier = group_->Barrier({.ready = {gate.event()}});
  ASSERT_THAT(barrier, IsOk());
  const auto work = Scatter();
  ASSERT_THAT(work, IsOk());
  EXPECT_FALSE(work->done());
  EXPECT_THAT(out_, ElementsAre(0, 0, 0));
  gate.Complete(absl::OkStatus());
  EXPECT_TRUE(work->done());
}

TEST_F(HierarchicalCollectiveTest, CallsAreCountedAsTheyWereMade) {
  ASSERT_THAT(Scatter(), IsOk());
  ASSERT_THAT(
      group_->AllReduce(ConstBuffer::Of<float>(in_),
                        MutableBuffer::Of<float>(out_), Reduction::Sum()),
      IsOk());
  ASSERT_THAT(group_->Barrier(), IsOk());
  const auto counters = group_->Counters();
  ASSERT_THAT(counters, IsOk());
  const auto calls = [&counters](Kind kind) {
    return counters->calls[static_cast<size_t>(kind)];
  };
  EXPECT_EQ(calls(Kind::kReduceScatterV), 1);
  EXPECT_EQ(calls(Kind::kAllReduce), 1);
  EXPECT_EQ(calls(Kind::kAllGatherV), 0);
  EXPECT_EQ(calls(Kind::kBarrier), 1);
  EXPECT_THAT(counters->bytes_sent_to, ElementsAre(0));
}

TEST_F(HierarchicalCollectiveTest, CountersOfALevelThatFailAreAnError) {
  for (auto level : {&HierarchyLevels::whole, &HierarchyLevels::host_level,
                     &HierarchyLevels::lane_level}) {
    HierarchyLevels levels = Levels();
    levels.*level = NewGroup(*plugin_, "uncounted");
    const auto group = NewHierarchicalCollective(std::move(levels));
    ASSERT_THAT(group, IsOk());
    EXPECT_THAT((*group)->Counters(),
                StatusIs(absl::StatusCode::kInternal, "lost count"));
  }
}

// A level breaks while no call is in flight: the next call finds out, with the
// error that broke it, and so do the other levels.
TEST_F(HierarchicalCollectiveTest, ABrokenLevelBreaksTheGroup) {
  for (auto level : {&HierarchyLevels::whole, &HierarchyLevels::host_level,
                     &HierarchyLevels::lane_level}) {
    HierarchyLevels levels = Levels();
    const HierarchyLevels* const seen = &levels;
    Collective* const groups[] = {seen->whole.get(), seen->host_level.get(),
                                  seen->lane_level.get()};
    Collective* const broken = (levels.*level).get();
    const auto group = NewHierarchicalCollective(std::move(levels));
    ASSERT_THAT(group, IsOk());
    broken->Abort(absl::UnavailableError("power cut"));
    const auto expected = StatusIs(absl::StatusCode::kAborted, "power cut");
    EXPECT_THAT(
        (*group)->AllReduce(ConstBuffer::Of<float>(in_),
                            MutableBuffer::Of<float>(out_), Reduction::Sum()),
        expected);
    for (const Collective* each : groups) EXPECT_THAT(each->Health(), expected);
    EXPECT_THAT((*group)->Health(), expected);
  }
}

TEST_F(HierarchicalCollectiveTest, AnErrorKeepsItsCodeOnItsWayToOtherLevels) {
  EventSource producer(runtime_);
  const auto work = Scatter({.ready = {producer.event()}});
  ASSERT_THAT(work, IsOk());
  producer.Complete(absl::DataLossError("flipped bit"));
  EXPECT_THAT(work->Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kDataLoss, "flipped bit"));
  EXPECT_THAT(group_->Health(),
              StatusIs(absl::StatusCode::kDataLoss, "flipped bit"));
  EXPECT_THAT(group_->Barrier(),
              StatusIs(absl::StatusCode::kDataLoss, "flipped bit"));
}

TEST_F(HierarchicalCollectiveTest, AbortReachesEveryLevel) {
  EventSource never(runtime_);
  const auto work = Scatter({.ready = {never.event()}});
  ASSERT_THAT(work, IsOk());
  group_->Abort(absl::UnavailableError("power cut"));
  EXPECT_THAT(work->Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kAborted, "power cut"));
  EXPECT_THAT(Scatter(), StatusIs(absl::StatusCode::kAborted, "power cut"));
}

TEST_F(HierarchicalCollectiveTest, AWorkOutlivesTheGroup) {
  EventSource never(runtime_);
  const auto work = Scatter({.ready = {never.event()}});
  ASSERT_THAT(work, IsOk());
  group_.reset();
  EXPECT_THAT(work->Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kAborted, "left"));
}

TEST_F(HierarchicalCollectiveTest, SplitGoesToTheWholeGroup) {
  EXPECT_THAT(group_->Split(0, 0, "part", absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kUnimplemented, "\"part\""));
}

}  // namespace
}  // namespace muonshard
