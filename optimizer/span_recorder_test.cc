#include "optimizer/span_recorder.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "collectives/runtime/event.h"
#include "collectives/runtime/sim_runtime.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;

// A work that ends when the test says so.
class EventWork : public Work::State {
 public:
  explicit EventWork(const EventSource& source) : event_(source.event()) {}
  absl::Status Wait(absl::Time deadline) override {
    return event_.Wait(deadline);
  }
  bool done() const override { return event_.done(); }
  Event event() override { return event_; }

 private:
  const Event event_;
};

TEST(SpanRecorderTest, ASpanEndsWhenItsWorkDoes) {
  const auto runtime = SimRuntime::Create({.seed = 1});
  std::vector<StepSpan> spans;
  const absl::Status run = runtime->Run([&] {
    EventSource source(*runtime);
    {
      SpanRecorder recorder(
          *runtime, [&](const StepSpan& span) { spans.push_back(span); });
      EXPECT_TRUE(recorder.on());
      recorder.RecordUntilDone(Work(std::make_shared<EventWork>(source)),
                               SpanKind::kGather, 7, 2, runtime->Now());
      EXPECT_TRUE(spans.empty());
      source.Complete(absl::OkStatus());
    }
    ASSERT_EQ(spans.size(), 1u);
    EXPECT_EQ(spans[0].kind, SpanKind::kGather);
    EXPECT_EQ(spans[0].step, 7);
    EXPECT_EQ(spans[0].index, 2);
    EXPECT_LE(spans[0].begin, spans[0].end);
  });
  EXPECT_THAT(run, IsOk());
}

TEST(SpanRecorderTest, TheDestructorWaitsForTheReportsThatAreDue) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto runtime = SimRuntime::Create({.seed = seed});
    bool destroyed = false;
    const absl::Status run = runtime->Run([&] {
      EventSource source(*runtime);
      auto recorder = std::make_unique<SpanRecorder>(
          *runtime, [&](const StepSpan&) { EXPECT_FALSE(destroyed); });
      recorder->RecordUntilDone(Work(std::make_shared<EventWork>(source)),
                                SpanKind::kReduction, 1, 0, runtime->Now());
      const std::unique_ptr<Task> task =
          runtime->Start("completes", TaskKind::kProgram,
                         [&] { source.Complete(absl::OkStatus()); });
      recorder.reset();
      destroyed = true;
      EXPECT_TRUE(source.event().done());
      task->Join();
    });
    EXPECT_THAT(run, IsOk());
  }
}

TEST(SpanRecorderTest, WithoutASinkNothingIsRecorded) {
  const auto runtime = SimRuntime::Create({.seed = 1});
  const absl::Status run = runtime->Run([&] {
    SpanRecorder recorder(*runtime, {});
    EXPECT_FALSE(recorder.on());
    recorder.Record(SpanKind::kWait, 1, 0, runtime->Now());
    recorder.RecordUntilDone(Work(), SpanKind::kWait, 1, 0, runtime->Now());
  });
  EXPECT_THAT(run, IsOk());
}

}  // namespace
}  // namespace muonshard
