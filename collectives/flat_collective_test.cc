// The core's side of a collective, on a plugin in plain C whose groups have one
// rank.

#include "collectives/flat_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
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
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSolo[] = "collectives/testing/libmuonshard_solo.so";

class FlatCollectiveTest : public ::testing::Test {
 protected:
  std::unique_ptr<Plugin> NewPlugin() {
    auto plugin = Plugin::Open({.plugin = kSolo}, runtime_);
    EXPECT_THAT(plugin, IsOk());
    return *std::move(plugin);
  }
  std::unique_ptr<Collective> NewGroup(Plugin& plugin, std::string name) {
    auto group = plugin.NewGroup({.name = std::move(name)});
    EXPECT_THAT(group, IsOk());
    return *std::move(group);
  }
  absl::StatusOr<Work> Sum(CallOptions options = {}) {
    return group_->AllReduce(ConstBuffer::Of<float>(in_),
                             MutableBuffer::Of<float>(out_), Reduction::Sum(),
                             std::move(options));
  }
  Operation SumOperation(CallOptions options = {}) {
    return {.kind = OperationKind::kAllReduce,
            .data_type = DataType::kF32,
            .in = ConstBuffer::Of<float>(in_),
            .out = MutableBuffer::Of<float>(out_),
            .options = std::move(options)};
  }

  RecordingRuntime runtime_{NewThreadsRuntime()};
  const std::unique_ptr<Plugin> plugin_ = NewPlugin();
  std::unique_ptr<Collective> group_ = NewGroup(*plugin_, "world");
  const std::vector<float> in_ = {1, 2, 3};
  std::vector<float> out_ = std::vector<float>(3);
};

TEST_F(FlatCollectiveTest, ItIsWhatThePluginSays) {
  EXPECT_EQ(group_->name(), "world");
  EXPECT_EQ(group_->rank(), Rank{0});
  EXPECT_EQ(group_->size(), 1);
  EXPECT_EQ(&group_->runtime(), &runtime_);
  EXPECT_TRUE(group_->capabilities().canonical);
  EXPECT_FALSE(group_->capabilities().split);
  EXPECT_THAT(group_->Health(), IsOk());
}

TEST_F(FlatCollectiveTest, EveryMethodReachesThePluginOrSaysThatItIsLacking) {
  const ConstBuffer in = ConstBuffer::Of<float>(in_);
  const MutableBuffer out = MutableBuffer::Of<float>(out_);
  for (const auto& work :
       {Sum(), group_->ReduceScatterV(in, out, {3}, Reduction::Max()),
        group_->AllGatherV(in, out, {3}), group_->Barrier()}) {
    ASSERT_THAT(work, IsOk());
    EXPECT_THAT(work->Wait(absl::InfiniteFuture()), IsOk());
  }
  const auto unimplemented = StatusIs(absl::StatusCode::kUnimplemented);
  EXPECT_THAT(group_->Reduce(in, out, Reduction::Sum(), Rank{0}),
              unimplemented);
  EXPECT_THAT(group_->Broadcast(in, out, Rank{0}), unimplemented);
  EXPECT_THAT(group_->AllToAllV(in, out, {3}, {3}), unimplemented);
  EXPECT_THAT(group_->AllReduce(in, out, Reduction::Min()), unimplemented);
  EXPECT_THAT(
      group_->AllReduce({in.data, 1, DataType::kI32},
                        {out.data, 1, DataType::kI32}, Reduction::Sum()),
      unimplemented);
  // In a group of one there is nobody to send to.
  EXPECT_THAT(group_->Send(in, Rank{0}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(group_->Recv(out, Rank{0}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(FlatCollectiveTest, CountersCountCallsByKind) {
  for (int i = 0; i < 3; ++i) ASSERT_THAT(Sum(), IsOk());
  ASSERT_THAT(group_->Barrier(), IsOk());
  const auto counters = group_->Counters();
  ASSERT_THAT(counters, IsOk());
  EXPECT_EQ(counters->calls[static_cast<size_t>(OperationKind::kAllReduce)], 3);
  EXPECT_EQ(counters->calls[static_cast<size_t>(OperationKind::kBarrier)], 1);
  EXPECT_THAT(counters->bytes_sent_to, ElementsAre(0));
  EXPECT_EQ(counters->bytes_sent(), 0);
}

TEST_F(FlatCollectiveTest,
       CountersThatThePluginLostAreAnErrorThatNamesTheGroup) {
  const auto group = NewGroup(*plugin_, "uncounted");
  const auto counters = group->Counters();
  EXPECT_THAT(counters, StatusIs(absl::StatusCode::kInternal, "lost count"));
  EXPECT_THAT(std::string(counters.status().message()),
              HasSubstr("group \"uncounted\", rank 0: counters"));
}

TEST_F(FlatCollectiveTest, AWorkWaitsForWhatItsCallWaitsFor) {
  EventSource first(runtime_);
  EventSource second(runtime_);
  const auto work = Sum({.ready = {first.event(), second.event()}});
  ASSERT_THAT(work, IsOk());
  const Event event = work->event();
  second.Complete(absl::OkStatus());
  EXPECT_FALSE(work->done());
  EXPECT_FALSE(event.done());
  EXPECT_THAT(
      work->Wait(runtime_.Now()),
      StatusIs(absl::StatusCode::kDeadlineExceeded, "this wait expired"));
  EXPECT_THAT(out_, ElementsAre(0, 0, 0));
  first.Complete(absl::OkStatus());
  EXPECT_TRUE(work->done());
  EXPECT_TRUE(event.done());
  EXPECT_TRUE(work->event().done());
  EXPECT_THAT(work->Wait(absl::InfinitePast()), IsOk());
  EXPECT_THAT(out_, ElementsAre(1, 2, 3));
}

TEST_F(FlatCollectiveTest, AnErrorOfAnEventIsTheErrorOfTheCallAndTheGroup) {
  EventSource producer(runtime_);
  const auto work = Sum({.label = "sum", .ready = {producer.event()}});
  ASSERT_THAT(work, IsOk());
  const Event event = work->event();
  producer.Complete(absl::DataLossError("flipped bit"));
  const auto expected =
      AllOf(StatusIs(absl::StatusCode::kDataLoss, "flipped bit"),
            StatusIs(absl::StatusCode::kDataLoss, "AllReduce \"sum\""));
  EXPECT_THAT(work->Wait(absl::InfiniteFuture()), expected);
  EXPECT_THAT(event.Wait(absl::InfiniteFuture()), expected);
  EXPECT_THAT(group_->Health(),
              StatusIs(absl::StatusCode::kDataLoss, "\"world\", rank 0"));
  EXPECT_THAT(Sum(), StatusIs(absl::StatusCode::kDataLoss, "flipped bit"));
}

TEST_F(FlatCollectiveTest, TheCallsOwnDeadlineEndsIt) {
  EventSource never(runtime_);
  const auto work = Sum({.ready = {never.event()}, .deadline = runtime_.Now()});
  ASSERT_THAT(work, IsOk());
  EXPECT_THAT(
      work->Wait(absl::InfiniteFuture()),
      StatusIs(absl::StatusCode::kDeadlineExceeded, "its deadline passed"));
  EXPECT_TRUE(work->done());
}

TEST_F(FlatCollectiveTest, AbortEndsWorksWithItsReason) {
  EventSource never(runtime_);
  const auto work = Sum({.ready = {never.event()}});
  ASSERT_THAT(work, IsOk());
  group_->Abort(absl::UnavailableError("power cut"));
  EXPECT_THAT(work->Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kAborted, "power cut"));
  group_->Abort(absl::OkStatus());
  EXPECT_THAT(group_->Health(),
              StatusIs(absl::StatusCode::kAborted, "power cut"));
}

TEST_F(FlatCollectiveTest, AbortWithoutAReasonSaysSo) {
  group_->Abort(absl::OkStatus());
  EXPECT_THAT(group_->Health(),
              StatusIs(absl::StatusCode::kAborted, "no reason given"));
}

TEST_F(FlatCollectiveTest, AWorkAndItsEventOutliveTheGroup) {
  EventSource never(runtime_);
  const auto work = Sum({.ready = {never.event()}});
  const auto done = group_->Barrier();
  ASSERT_THAT(work, IsOk());
  const Event event = work->event();
  group_.reset();
  EXPECT_THAT(work->Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kAborted, "left"));
  EXPECT_THAT(event.Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kAborted, "left"));
  EXPECT_THAT(work->event().Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_F(FlatCollectiveTest, DroppingAWorkLetsTheOperationGoOn) {
  EventSource gate(runtime_);
  Event event;
  {
    const auto work = Sum({.ready = {gate.event()}});
    ASSERT_THAT(work, IsOk());
    event = work->event();
  }
  gate.Complete(absl::OkStatus());
  EXPECT_THAT(event.Wait(absl::InfinitePast()), IsOk());
  EXPECT_THAT(out_, ElementsAre(1, 2, 3));
}

TEST_F(FlatCollectiveTest, APostThatFailsNamesTheCall) {
  EXPECT_EQ(Sum({.label = "refused"}).status(),
            absl::FailedPreconditionError(
                "group \"world\", rank 0: AllReduce \"refused\" (operation 0): "
                "as was asked"));
}

TEST_F(FlatCollectiveTest, AWorkThatThePluginDoesNotGiveIsAnInternalError) {
  const auto work = Sum({.label = "lost"});
  ASSERT_THAT(work, IsOk());
  EXPECT_THAT(work->Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kInternal, "gave no work"));
}

TEST_F(FlatCollectiveTest, SplitIsUnimplementedWhereItIsNotPromised) {
  EXPECT_THAT(group_->Split(0, 0, "part", absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kUnimplemented, "\"part\""));
  EXPECT_THAT(group_->Split(-2, 0, "part", absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kInvalidArgument, "-2"));
}

TEST_F(FlatCollectiveTest, ABatchIsOnePostOverAllGroupsOfAPlugin) {
  const std::unique_ptr<Collective> other = NewGroup(*plugin_, "other");
  runtime_.TakeLines();
  Batch batch;
  EXPECT_TRUE(batch.empty());
  EXPECT_THAT(batch.Add(*group_, SumOperation()), IsOk());
  EXPECT_THAT(batch.Add(*other, {.kind = OperationKind::kBarrier}), IsOk());
  EXPECT_THAT(batch.Add(*group_, {.kind = OperationKind::kBarrier}), IsOk());
  EXPECT_FALSE(batch.empty());
  const auto works = batch.Post();
  ASSERT_THAT(works, IsOk());
  EXPECT_TRUE(batch.empty());
  ASSERT_EQ(works->size(), 3);
  for (const Work& work : *works) {
    EXPECT_THAT(work.Wait(absl::InfiniteFuture()), IsOk());
  }
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre("0 post of 3"));
}

TEST_F(FlatCollectiveTest, ABatchIsOnePostForEachPlugin) {
  const std::unique_ptr<Plugin> second = NewPlugin();
  const std::unique_ptr<Collective> other = NewGroup(*second, "other");
  runtime_.TakeLines();
  Batch batch;
  EXPECT_THAT(batch.Add(*group_, SumOperation()), IsOk());
  EXPECT_THAT(batch.Add(*other, {.kind = OperationKind::kBarrier}), IsOk());
  EXPECT_THAT(batch.Add(*group_, {.kind = OperationKind::kBarrier}), IsOk());
  ASSERT_THAT(batch.Post(), IsOk());
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre("0 post of 2", "0 post of 1"));
}

TEST_F(FlatCollectiveTest, AnEmptyBatchPostsNothing) {
  const auto works = Batch().Post();
  ASSERT_THAT(works, IsOk());
  EXPECT_TRUE(works->empty());
  EXPECT_THAT(runtime_.TakeLines(), ElementsAre());
}

TEST_F(FlatCollectiveTest, AWrongCallIsRefusedByAddAndTheOthersStay) {
  Batch batch;
  EXPECT_THAT(batch.Add(*group_, SumOperation()), IsOk());
  Operation wrong = SumOperation();
  wrong.out.count = 2;
  EXPECT_THAT(batch.Add(*group_, wrong),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const auto works = batch.Post();
  ASSERT_THAT(works, IsOk());
  EXPECT_EQ(works->size(), 1);
}

TEST_F(FlatCollectiveTest, ABatchWhosePostFailsStartsNothing) {
  Batch batch;
  EXPECT_THAT(batch.Add(*group_, SumOperation()), IsOk());
  EXPECT_THAT(batch.Add(*group_, SumOperation({.label = "refused"})), IsOk());
  EXPECT_THAT(batch.Post(),
              StatusIs(absl::StatusCode::kFailedPrecondition, "\"refused\""));
  EXPECT_TRUE(batch.empty());
  EXPECT_THAT(out_, ElementsAre(0, 0, 0));
  EXPECT_THAT(group_->Health(), IsOk());
  EXPECT_EQ(group_->Counters()->calls[0], 0);
}

}  // namespace
}  // namespace muonshard
