#include "collectives/call_order.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/threads_runtime.h"

namespace muonshard {
namespace {

using Kind = OperationKind;

// A work that ends with an event.
class EventWork final : public Work::State {
 public:
  explicit EventWork(Event event) : event_(std::move(event)) {}
  absl::Status Wait(absl::Time deadline) override {
    return event_.Wait(deadline);
  }
  bool done() const override { return event_.done(); }
  Event event() override { return event_; }

 private:
  const Event event_;
};

class CallOrderTest : public ::testing::Test {
 protected:
  // A call through the levels, of elements [in, in + in_count) to
  // [out, out + out_count) of one buffer.
  CallFootprint Call(Kind kind, int64_t in, int64_t in_count, int64_t out,
                     int64_t out_count) {
    return FootprintOf(
        {.kind = kind,
         .in = {&buffer_[static_cast<size_t>(in)], in_count, DataType::kF32},
         .out = {&buffer_[static_cast<size_t>(out)], out_count,
                 DataType::kF32}},
        /*through_levels=*/true);
  }
  static CallFootprint Whole(Kind kind) {
    return FootprintOf({.kind = kind}, /*through_levels=*/false);
  }

  std::array<float, 16> buffer_ = {};
  const std::unique_ptr<Runtime> runtime_ = NewThreadsRuntime();
  CallOrder order_{[](const absl::Status&) {}};
};

TEST_F(CallOrderTest, CallsThroughTheLevelsWaitWhereOneWritesWhatTheyShare) {
  const CallFootprint earlier = Call(Kind::kReduceScatterV, 0, 4, 4, 2);
  // Both read.
  EXPECT_FALSE(WaitsFor(Call(Kind::kReduceScatterV, 0, 4, 8, 2), earlier));
  // Reads what the earlier one writes.
  EXPECT_TRUE(WaitsFor(Call(Kind::kReduceScatterV, 5, 1, 8, 2), earlier));
  EXPECT_FALSE(WaitsFor(Call(Kind::kReduceScatterV, 6, 1, 8, 2), earlier));
  // Writes what the earlier one reads.
  EXPECT_TRUE(WaitsFor(Call(Kind::kReduceScatterV, 8, 1, 3, 1), earlier));
  // Writes what the earlier one writes.
  EXPECT_TRUE(WaitsFor(Call(Kind::kReduceScatterV, 8, 1, 5, 4), earlier));
  // Of no elements there is nothing to share.
  EXPECT_FALSE(WaitsFor(Call(Kind::kReduceScatterV, 5, 0, 4, 0), earlier));
}

TEST_F(CallOrderTest, WhatGoesThroughTheWholeGroupKeepsItsPlace) {
  const CallFootprint through_levels = Call(Kind::kAllReduce, 0, 4, 4, 4);
  for (const Kind kind : {Kind::kBarrier, Kind::kReduce, Kind::kAllToAllV}) {
    EXPECT_TRUE(WaitsFor(Whole(kind), through_levels));
    EXPECT_TRUE(WaitsFor(through_levels, Whole(kind)));
    // One communicator keeps these in order.
    EXPECT_FALSE(WaitsFor(Whole(kind), Whole(Kind::kBarrier)));
  }
}

TEST_F(CallOrderTest, NothingWaitsForMessages) {
  const CallFootprint through_levels = Call(Kind::kAllReduce, 0, 4, 4, 4);
  for (const Kind kind : {Kind::kSend, Kind::kRecv}) {
    EXPECT_TRUE(WaitsFor(Whole(kind), through_levels));
    EXPECT_FALSE(WaitsFor(through_levels, Whole(kind)));
    EXPECT_FALSE(WaitsFor(Whole(Kind::kBarrier), Whole(kind)));
  }
}

TEST_F(CallOrderTest, LevelsAreSharedByOneKindOrByTheWholeGroup) {
  const CallFootprint scatter = Call(Kind::kReduceScatterV, 0, 4, 4, 2);
  EXPECT_TRUE(ShareLevels(scatter, scatter));
  EXPECT_FALSE(ShareLevels(scatter, Call(Kind::kAllGatherV, 0, 4, 4, 8)));
  EXPECT_FALSE(ShareLevels(scatter, Whole(Kind::kBarrier)));
  EXPECT_TRUE(ShareLevels(Whole(Kind::kReduce), Whole(Kind::kBarrier)));
}

TEST_F(CallOrderTest, WhatHasEndedIsWaitedForNoMore) {
  const CallFootprint call = Call(Kind::kAllReduce, 0, 4, 0, 4);
  EventSource first(*runtime_);
  EventSource second(*runtime_);
  order_.Posted(call, Work(std::make_shared<EventWork>(first.event())));
  order_.Posted(call, Work(std::make_shared<EventWork>(second.event())));
  EXPECT_EQ(order_.Before(call).size(), 2);
  EXPECT_EQ(order_.Before(Call(Kind::kAllReduce, 4, 4, 4, 4)).size(), 0);
  first.Complete(absl::OkStatus());
  std::vector<Event> before = order_.Before(call);
  ASSERT_EQ(before.size(), 1);
  EXPECT_FALSE(before.front().done());
  second.Complete(absl::OkStatus());
  EXPECT_TRUE(before.front().done());
  EXPECT_TRUE(order_.Before(call).empty());
}

TEST_F(CallOrderTest, OnlyErrorsOfPartsAreHeard) {
  std::vector<absl::Status> heard;
  const CallOrder order(
      [&heard](const absl::Status& error) { heard.push_back(error); });
  EventSource part(*runtime_);
  order.PartPosted(Work());
  order.PartPosted(Work(std::make_shared<EventWork>(part.event())));
  EXPECT_TRUE(heard.empty());
  part.Complete(absl::DataLossError("flipped bit"));
  EXPECT_EQ(heard, std::vector{absl::DataLossError("flipped bit")});
}

}  // namespace
}  // namespace muonshard
