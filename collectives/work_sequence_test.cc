#include "collectives/work_sequence.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/runtime/event.h"
#include "collectives/runtime/threads_runtime.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

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

class WorkSequenceTest : public ::testing::Test {
 protected:
  Work Sequence(absl::Status end = absl::OkStatus()) {
    return SequenceOf(*runtime_, {WorkOf(first_), WorkOf(second_)}, end);
  }
  static Work WorkOf(const EventSource& source) {
    return Work(std::make_shared<EventWork>(source.event()));
  }

  const std::unique_ptr<Runtime> runtime_ = NewThreadsRuntime();
  EventSource first_{*runtime_};
  EventSource second_{*runtime_};
};

TEST_F(WorkSequenceTest, ItEndsWhenAllItsLevelsHaveInAnyOrder) {
  const Work work = Sequence();
  const Event event = work.event();
  EXPECT_FALSE(work.done());
  second_.Complete(absl::OkStatus());
  EXPECT_FALSE(work.done());
  EXPECT_FALSE(event.done());
  EXPECT_THAT(work.Wait(absl::InfinitePast()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  first_.Complete(absl::OkStatus());
  EXPECT_TRUE(work.done());
  EXPECT_TRUE(event.done());
  EXPECT_THAT(work.Wait(absl::InfinitePast()), IsOk());
  EXPECT_THAT(event.Wait(absl::InfinitePast()), IsOk());
}

TEST_F(WorkSequenceTest, ItsErrorIsTheFirstByLevelNotByTime) {
  const Work work = Sequence(absl::InternalError("end"));
  const Event event = work.event();
  second_.Complete(absl::AbortedError("second"));
  first_.Complete(absl::DataLossError("first"));
  EXPECT_THAT(work.Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kDataLoss, "first"));
  EXPECT_THAT(event.Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kDataLoss, "first"));
}

TEST_F(WorkSequenceTest, AnErrorDoesNotEndItBeforeItsLevels) {
  const Work work = Sequence(absl::InternalError("not started"));
  first_.Complete(absl::OkStatus());
  EXPECT_FALSE(work.done());
  second_.Complete(absl::OkStatus());
  EXPECT_THAT(work.Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kInternal, "not started"));
  EXPECT_THAT(work.event().Wait(absl::InfiniteFuture()),
              StatusIs(absl::StatusCode::kInternal, "not started"));
}

TEST_F(WorkSequenceTest, ItsEventOutlivesIt) {
  Event event;
  {
    const Work work = Sequence();
    event = work.event();
    EXPECT_FALSE(event.done());
  }
  first_.Complete(absl::OkStatus());
  second_.Complete(absl::AbortedError("second"));
  EXPECT_THAT(event.Wait(absl::InfinitePast()),
              StatusIs(absl::StatusCode::kAborted, "second"));
}

TEST_F(WorkSequenceTest, AFailedWorkHasEnded) {
  const Work work = FailedWork(*runtime_, absl::InternalError("lost"));
  EXPECT_TRUE(work.done());
  EXPECT_TRUE(work.event().done());
  EXPECT_THAT(work.Wait(absl::InfinitePast()),
              StatusIs(absl::StatusCode::kInternal, "lost"));
}

TEST_F(WorkSequenceTest, AWorkOfNothingHasEndedWell) {
  const Work work;
  EXPECT_TRUE(work.done());
  EXPECT_TRUE(work.event().done());
  EXPECT_THAT(work.Wait(absl::InfinitePast()), IsOk());
}

}  // namespace
}  // namespace muonshard
