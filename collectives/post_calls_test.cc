// Calls of two levels, over two communicators of a plugin in plain C.

#include "collectives/post_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/call_order.h"
#include "collectives/operation.h"
#include "collectives/plugin_communicator.h"
#include "collectives/plugin_instance.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/store.h"
#include "collectives/store_table.h"
#include "collectives/testing/recording_runtime.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::RecordingRuntime;
using ::muonshard::testing::StatusIs;
using ::testing::ElementsAre;

constexpr char kSolo[] = "collectives/testing/libmuonshard_solo.so";

class PostCallsTest : public ::testing::Test {
 protected:
  std::shared_ptr<const PluginInstance> NewPlugin() {
    auto plugin = PluginInstance::Open(kSolo, "{}", runtime_);
    EXPECT_THAT(plugin, IsOk());
    return *plugin;
  }
  std::shared_ptr<PluginCommunicator> NewCommunicator(
      std::shared_ptr<const PluginInstance> plugin, std::string name) {
    PluginCommunicator::Config config;
    config.name = config.id = std::move(name);
    config.deadline = absl::InfiniteFuture();
    config.store = store_;
    auto communicator = PluginCommunicator::Create(std::move(plugin), config);
    EXPECT_THAT(communicator, IsOk());
    return *communicator;
  }

  // A copy from `from` to `to`, which is what a sum over one rank is.
  static Operation Copy(const std::vector<float>& from, std::vector<float>& to,
                        CallOptions options = {}) {
    return {.kind = OperationKind::kAllReduce,
            .data_type = DataType::kF32,
            .in = ConstBuffer::Of<float>(from),
            .out = MutableBuffer::Of<float>(to),
            .options = std::move(options)};
  }
  // From in_ over scratch_ to out_, one level each.
  LoweredCall TwoLevels(CallOptions first, CallOptions second) {
    return {.levels = {{{hosts_, Copy(in_, scratch_, std::move(first))}},
                       {{lanes_, Copy(scratch_, out_, std::move(second))}}}};
  }
  absl::StatusOr<std::vector<Work>> Post(LoweredCall one) {
    std::vector<LoweredCall> calls;
    calls.push_back(std::move(one));
    return PostCalls(std::move(calls));
  }

  RecordingRuntime runtime_{NewThreadsRuntime()};
  const std::unique_ptr<Store> memory_ = NewInProcessStore(runtime_);
  const std::shared_ptr<const StoreTable> store_ =
      std::make_shared<const StoreTable>(*memory_);
  const std::shared_ptr<const PluginInstance> plugin_ = NewPlugin();
  const std::shared_ptr<PluginCommunicator> hosts_ =
      NewCommunicator(plugin_, "hosts");
  const std::shared_ptr<PluginCommunicator> lanes_ =
      NewCommunicator(NewPlugin(), "lanes");
  const std::vector<float> in_ = {1, 2, 3};
  std::vector<float> scratch_ = std::vector<float>(3);
  std::vector<float> out_ = std::vector<float>(3);
};

TEST_F(PostCallsTest, ALevelStartsWhenTheOneBeforeHasEnded) {
  EventSource gate(runtime_);
  const auto works = Post(TwoLevels({.ready = {gate.event()}}, {}));
  ASSERT_THAT(works, IsOk());
  ASSERT_EQ(works->size(), 1);
  const Work& work = works->front();
  // Both levels are posted, and nobody waited for the first.
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre("0 post of 1", "0 post of 1"));
  EXPECT_FALSE(work.done());
  EXPECT_THAT(work.Wait(runtime_.Now()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(out_, ElementsAre(0, 0, 0));
  gate.Complete(absl::OkStatus());
  EXPECT_THAT(work.Wait(absl::InfiniteFuture()), IsOk());
  EXPECT_THAT(out_, ElementsAre(1, 2, 3));
}

TEST_F(PostCallsTest, CallsShareOnePostPerLevelAndPlugin) {
  std::vector<float> scratch(3), out(3), flat_out(3);
  std::vector<LoweredCall> calls;
  calls.push_back(TwoLevels({}, {}));
  calls.push_back({.levels = {{{hosts_, Copy(in_, flat_out)}}}});
  calls.push_back({.levels = {{{hosts_, Copy(in_, scratch)}},
                              {{lanes_, Copy(scratch, out)}}}});
  const auto works = PostCalls(std::move(calls));
  ASSERT_THAT(works, IsOk());
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre("0 post of 3", "0 post of 2"));
  for (const Work& work : *works) {
    EXPECT_THAT(work.Wait(absl::InfiniteFuture()), IsOk());
  }
  for (const auto& result : {out_, out, flat_out}) {
    EXPECT_THAT(result, ElementsAre(1, 2, 3));
  }
}

TEST_F(PostCallsTest, TheFirstErrorIsTheOneOfTheCall) {
  EventSource gate(runtime_);
  const auto works = Post(TwoLevels({.ready = {gate.event()}}, {}));
  ASSERT_THAT(works, IsOk());
  gate.Complete(absl::DataLossError("flipped bit"));
  EXPECT_THAT(works->front().Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kDataLoss, "\"hosts\""));
  // Both groups are broken by it.
  EXPECT_THAT(hosts_->Health(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(lanes_->Health(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(PostCallsTest, AnErrorOfTheFirstPostStartsNothing) {
  EXPECT_THAT(Post(TwoLevels({.label = "refused"}, {})),
              StatusIs(absl::StatusCode::kFailedPrecondition, "\"refused\""));
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre("0 post of 1"));
  EXPECT_THAT(hosts_->Health(), IsOk());
  EXPECT_THAT(lanes_->Health(), IsOk());
}

TEST_F(PostCallsTest, AnErrorOfALaterPostEndsTheCallWhenWhatWasStartedHas) {
  EventSource gate(runtime_);
  const auto works =
      Post(TwoLevels({.ready = {gate.event()}}, {.label = "refused"}));
  ASSERT_THAT(works, IsOk());
  const Work& work = works->front();
  // The first level still writes to its buffers.
  EXPECT_FALSE(work.done());
  // Peers that wait at the second level are told.
  EXPECT_THAT(lanes_->Health(),
              StatusIs(absl::StatusCode::kAborted, "\"refused\""));
  gate.Complete(absl::OkStatus());
  EXPECT_TRUE(work.done());
  EXPECT_THAT(work.Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kFailedPrecondition, "\"refused\""));
  EXPECT_THAT(hosts_->Health(), IsOk());
}

TEST_F(PostCallsTest, AnErrorOfOnePluginDoesNotUndoTheOther) {
  std::vector<LoweredCall> calls;
  calls.push_back({.levels = {{{hosts_, Copy(in_, out_)}}}});
  calls.push_back(
      {.levels = {{{lanes_, Copy(in_, scratch_, {.label = "refused"})}}}});
  const auto works = PostCalls(std::move(calls));
  ASSERT_THAT(works, IsOk());
  EXPECT_THAT((*works)[0].Wait(absl::InfiniteFuture()), IsOk());
  EXPECT_THAT((*works)[1].Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kFailedPrecondition, "\"refused\""));
}

TEST_F(PostCallsTest, ACallWithoutLevelsHasEnded) {
  const auto works = Post({});
  ASSERT_THAT(works, IsOk());
  EXPECT_THAT(works->front().Wait(absl::InfinitePast()), IsOk());
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre());
}

// Calls of one order, over one communicator for each level.
class OrderedCallsTest : public PostCallsTest {
 protected:
  // From `from` over `scratch` to `to`, one level each.
  LoweredCall Ordered(OperationKind kind, const std::vector<float>& from,
                      std::vector<float>& scratch, std::vector<float>& to) {
    LoweredCall call = {.levels = {{{hosts_, Copy(from, scratch)}},
                                   {{lanes_, Copy(scratch, to)}}},
                        .order = order_};
    Operation operation = Copy(from, to, {.label = "call"});
    operation.kind = kind;
    call.footprint = FootprintOf(operation, /*through_levels=*/true);
    return call;
  }
  LoweredCall Ordered(OperationKind kind) {
    return Ordered(kind, in_, scratch_, out_);
  }
  // Goes past the levels.
  LoweredCall OrderedBarrier() {
    const Operation barrier = {.kind = OperationKind::kBarrier};
    return {.levels = {{{lanes_, barrier}}},
            .order = order_,
            .footprint = FootprintOf(barrier, /*through_levels=*/false)};
  }

  std::vector<absl::Status> errors_;
  const std::shared_ptr<CallOrder> order_ = std::make_shared<CallOrder>(
      [this](const absl::Status& error) { errors_.push_back(error); });
  std::vector<float> scratch2_ = std::vector<float>(3);
  std::vector<float> out2_ = std::vector<float>(3);
};

TEST_F(OrderedCallsTest, CallsOfOneKindShareTheirLevels) {
  std::vector<LoweredCall> calls;
  calls.push_back(Ordered(OperationKind::kAllReduce));
  calls.push_back(Ordered(OperationKind::kAllReduce, in_, scratch2_, out2_));
  ASSERT_THAT(PostCalls(std::move(calls)), IsOk());
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre("0 post of 2", "0 post of 2"));
}

TEST_F(OrderedCallsTest, CallsOfOneKindThatShareMemoryAreNotPostedTogether) {
  std::vector<LoweredCall> calls;
  calls.push_back(Ordered(OperationKind::kAllReduce));
  calls.push_back(Ordered(OperationKind::kAllReduce, out_, scratch2_, out2_));
  EXPECT_THAT(PostCalls(std::move(calls)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "AllReduce \"call\" shares memory with AllReduce"));
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre());
}

// A gather over the memory that a reduction has written, and a barrier between
// two others: each has levels of its own, in the order of the batch.
TEST_F(OrderedCallsTest, CallsOfDifferentKindsFollowEachOther) {
  EventSource gate(runtime_);
  std::vector<LoweredCall> calls;
  calls.push_back(Ordered(OperationKind::kReduceScatterV));
  calls.front().ready = {gate.event()};
  calls.push_back(OrderedBarrier());
  calls.push_back(Ordered(OperationKind::kAllGatherV, out_, scratch2_, out2_));
  const auto works = PostCalls(std::move(calls));
  ASSERT_THAT(works, IsOk());
  EXPECT_THAT(runtime_.TakeLines(),
              ElementsAre("0 post of 1", "0 post of 1", "0 post of 1",
                          "0 post of 1", "0 post of 1"));
  for (const Work& work : *works) EXPECT_FALSE(work.done());
  gate.Complete(absl::OkStatus());
  for (const Work& work : *works) {
    EXPECT_THAT(work.Wait(absl::InfiniteFuture()), IsOk());
  }
  EXPECT_THAT(out2_, ElementsAre(1, 2, 3));
}

// The first level of the second call has a communicator of its own, which does
// not know of the first call.
TEST_F(OrderedCallsTest, ACallWaitsForAnEarlierPostWhoseMemoryItShares) {
  const std::shared_ptr<PluginCommunicator> apart =
      NewCommunicator(plugin_, "apart");
  EventSource gate(runtime_);
  LoweredCall first = Ordered(OperationKind::kReduceScatterV);
  first.ready = {gate.event()};
  ASSERT_THAT(Post(std::move(first)), IsOk());

  LoweredCall disjoint =
      Ordered(OperationKind::kReduceScatterV, in_, scratch2_, scratch2_);
  disjoint.levels = {{{apart, Copy(in_, scratch2_)}}};
  const auto overlapping = Post(std::move(disjoint));
  ASSERT_THAT(overlapping, IsOk());
  EXPECT_TRUE(overlapping->front().done());

  LoweredCall second =
      Ordered(OperationKind::kReduceScatterV, out_, out2_, out2_);
  second.levels = {{{apart, Copy(out_, out2_)}}};
  const auto behind = Post(std::move(second));
  ASSERT_THAT(behind, IsOk());
  EXPECT_FALSE(behind->front().done());
  gate.Complete(absl::OkStatus());
  EXPECT_TRUE(behind->front().done());
  EXPECT_THAT(out2_, ElementsAre(1, 2, 3));
}

TEST_F(OrderedCallsTest, ALevelWithoutLaunchesPassesOnWhatTheCallWaitsFor) {
  EventSource gate(runtime_);
  LoweredCall call = Ordered(OperationKind::kBroadcast);
  call.levels.front().clear();
  call.ready = {gate.event()};
  const auto works = Post(std::move(call));
  ASSERT_THAT(works, IsOk());
  EXPECT_FALSE(works->front().done());
  gate.Complete(absl::OkStatus());
  EXPECT_TRUE(works->front().done());
}

TEST_F(OrderedCallsTest, ScratchLivesUntilTheCallHasEndedWhoeverHoldsItsWork) {
  EventSource gate(runtime_);
  auto scratch = std::make_shared<const int>(7);
  const std::weak_ptr<const int> watch = scratch;
  LoweredCall call = Ordered(OperationKind::kReduceScatterV);
  call.ready = {gate.event()};
  call.scratch.push_back(std::move(scratch));
  ASSERT_THAT(Post(std::move(call)), IsOk());
  EXPECT_FALSE(watch.expired());
  gate.Complete(absl::OkStatus());
  EXPECT_TRUE(watch.expired());
}

TEST_F(OrderedCallsTest, ScratchIsFreedWhereNothingWasStarted) {
  auto scratch = std::make_shared<const int>(7);
  const std::weak_ptr<const int> watch = scratch;
  hosts_->Abort(absl::UnavailableError("power cut"));
  LoweredCall call = Ordered(OperationKind::kReduceScatterV);
  call.scratch.push_back(std::move(scratch));
  EXPECT_THAT(Post(std::move(call)), StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(watch.expired());
}

// The first level still waits; the order hears of the second at once.
TEST_F(OrderedCallsTest, TheOrderHearsOfTheErrorOfAnyPart) {
  EventSource gate(runtime_);
  LoweredCall call = Ordered(OperationKind::kReduceScatterV);
  call.ready = {gate.event()};
  const auto works = Post(std::move(call));
  ASSERT_THAT(works, IsOk());
  EXPECT_TRUE(errors_.empty());
  lanes_->Break(absl::UnavailableError("power cut"));
  EXPECT_THAT(errors_, ElementsAre(StatusIs(absl::StatusCode::kUnavailable,
                                            "power cut")));
  EXPECT_FALSE(works->front().done());
  gate.Complete(absl::OkStatus());
  EXPECT_THAT(works->front().Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(OrderedCallsTest, TheOrderHearsOfAPartThatCannotBePosted) {
  LoweredCall call = Ordered(OperationKind::kReduceScatterV);
  call.levels.back().front().operation.options.label = "refused";
  ASSERT_THAT(Post(std::move(call)), IsOk());
  EXPECT_THAT(errors_, ElementsAre(StatusIs(
                           absl::StatusCode::kFailedPrecondition, "refused")));
}

TEST_F(PostCallsTest, BreakKeepsTheCodeThatAbortReplaces) {
  hosts_->Break(absl::DataLossError("flipped bit"));
  EXPECT_THAT(hosts_->Health(),
              StatusIs(absl::StatusCode::kDataLoss, "flipped bit"));
  lanes_->Abort(absl::DataLossError("flipped bit"));
  EXPECT_THAT(lanes_->Health(),
              StatusIs(absl::StatusCode::kAborted, "flipped bit"));
}

TEST_F(PostCallsTest, SplitNeedsASlot) {
  EXPECT_THAT(hosts_->Split(0, 0, "part", absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kUnimplemented, "\"solo\""));
}

}  // namespace
}  // namespace muonshard
