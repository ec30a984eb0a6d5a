#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/runtime/threads_runtime.h"
#include "optimizer/options.h"
#include "tools/trainer/plot.h"
#include "tools/trainer/progress.h"
#include "tools/trainer/report.h"
#include "tools/trainer/step_meter.h"
#include "tools/trainer/trace.h"
#include "tools/trainer/train_options.h"
#include "tools/trainer/train_result.h"

namespace muonshard {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kOrigin = absl::FromUnixSeconds(1000);

absl::Time At(double ms) { return kOrigin + absl::Milliseconds(ms); }

StepSpan Span(SpanKind kind, int64_t step, int32_t index, double begin_ms,
              double end_ms) {
  StepSpan span;
  span.kind = kind;
  span.step = step;
  span.index = index;
  span.begin = At(begin_ms);
  span.end = At(end_ms);
  return span;
}

TrainResult SomeResult() {
  TrainResult result;
  result.plugin_name = "loopback";
  result.data_source = "text \"quoted\"";
  result.held_out_loss_first = 5.5;
  result.held_out_loss_last = 2.25;
  result.steps = {{5, 10, 1, 0.5}, {4, 30, 2, 1.5}, {3, 20, 3, 1}};
  result.ranks = {{300, 30, 100}, {600, 31, 200}};
  result.imbalance = 1.0625;
  result.bucket_count = 7;
  result.plan_report = "the plan";
  return result;
}

TEST(StepMeterTest, MeansAreOverRanksAndTheLastRankIsTold) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  StepMeter meter(*runtime, 2, 3, /*keep_spans=*/false);
  EXPECT_FALSE(meter.EndStep(1, 1, 4, absl::Milliseconds(10)));
  StepSpan update = Span(SpanKind::kUpdate, 1, 0, 0, 9);
  update.newton_schulz = absl::Milliseconds(6);
  meter.SinkOf(0)(update);
  meter.SinkOf(1)(Span(SpanKind::kWait, 1, 0, 2, 6));
  // No step of this run.
  meter.SinkOf(1)(Span(SpanKind::kWait, 4, 0, 2, 6));
  EXPECT_TRUE(meter.EndStep(0, 1, 2, absl::Milliseconds(30)));
  const StepMeans means = meter.MeansOf(1);
  EXPECT_EQ(means.loss, 3);
  EXPECT_EQ(means.step_ms, 20);
  EXPECT_EQ(means.newton_schulz_ms, 3);
  EXPECT_EQ(means.exposed_communication_ms, 2);
  ASSERT_EQ(meter.Means().size(), 3u);
  EXPECT_EQ(meter.Means()[1].step_ms, 0);
  EXPECT_TRUE(meter.rank_spans().empty());
  EXPECT_TRUE(meter.program_spans().empty());
}

TEST(TraceTest, EveryKindOfSpanHasANameAndARowOfItsRank) {
  const std::vector<ProgramSpan> program = {
      {ProgramPhase::kForward, 1, 1, 0, At(0), At(1)},
      {ProgramPhase::kBackward, 1, 1, 0, At(1), At(3)},
      {ProgramPhase::kFinish, 1, 1, 0, At(3), At(4)}};
  const std::vector<RankSpan> spans = {
      {0, Span(SpanKind::kReduction, 1, 5, 1, 2)},
      {0, Span(SpanKind::kGather, 1, 5, 3, 4)},
      {0, Span(SpanKind::kUpdate, 1, 2, 2, 3)},
      {0, Span(SpanKind::kControl, 1, 0, 2, 2.5)},
      {0, Span(SpanKind::kWait, 1, 0, 2, 2.5)}};
  const std::string json = TraceJson(program, spans);
  for (const char* name :
       {"\"forward\"", "\"backward\"", "\"finish and step\"",
        "\"reduction of bucket 5\"", "\"gather of bucket 5\"",
        "\"update part 2\"", "\"control\"", "\"wait\"", "\"reduce bucket 5\"",
        "\"rank 0\"", "\"rank 1\""}) {
    EXPECT_THAT(json, HasSubstr(name));
  }
  EXPECT_THAT(json, HasSubstr("\"name\": \"backward\",\"ph\": \"X\",\"ts\": "
                              "1000,\"dur\": 2000,\"pid\": 1,\"tid\": 1,"));
}

TEST(ReportTest, TimesAreMedianAndMeans) {
  const StepTimes times = TimesOf(SomeResult().steps);
  EXPECT_EQ(times.step_median_ms, 20);
  EXPECT_DOUBLE_EQ(times.newton_schulz_ms, 2);
  EXPECT_DOUBLE_EQ(times.exposed_communication_ms, 1);
  EXPECT_EQ(TimesOf({{0, 10, 0, 0}, {0, 30, 0, 0}}).step_median_ms, 20);
  EXPECT_EQ(TimesOf({}).step_median_ms, 0);
}

TEST(ReportTest, BytesAreOfOneStepAndTheBoundIsTheSumOverRanks) {
  const std::string json = ReportJson({}, SomeResult());
  EXPECT_THAT(json, HasSubstr("\"wire_bytes\": {\"per_rank\": [100,200],"
                              "\"total_per_rank\": [300,600],"
                              "\"bound_per_rank\": [100,200],\"bound\": 300,"
                              "\"control_per_rank\": [10,10.333333333333334],"
                              "\"control_total_per_rank\": [30,31]}"));
  EXPECT_THAT(json, HasSubstr("\"data\": \"text \\\"quoted\\\"\""));
  EXPECT_THAT(json, HasSubstr("\"curve\": [5,4,3]"));
  EXPECT_THAT(json, HasSubstr("\"max_abs_difference\": null"));
}

TEST(ReportTest, FlagsScalerExpertsAndGroupsAreWritten) {
  TrainOptions options;
  options.micro_batches = 3;
  options.gather = GatherMode::kEager;
  options.hierarchy = Hierarchy::kOn;
  options.precision = DataType::kF16;
  options.lanes_per_node = 4;
  TrainResult result = SomeResult();
  result.loss_scale = 1024;
  result.expert_positions = {30, 10};
  result.groups = {{"sharding+ep", 8, {2, 4}}};
  const std::string json = ReportJson(options, result);
  EXPECT_THAT(json, HasSubstr("\"lanes_per_node\": 4,\"accumulate\": 3,"));
  EXPECT_THAT(json, HasSubstr("\"gather\": \"eager\",\"hierarchical\": "
                              "\"on\",\"precision\": \"fp16\","
                              "\"scaler\": false,"));
  EXPECT_THAT(json, HasSubstr("\"loss_scale\": 1024"));
  EXPECT_THAT(json, HasSubstr("\"experts\": {\"positions\": [30,10]}"));
  EXPECT_THAT(json, HasSubstr("\"groups\": [{\"axes\": \"sharding+ep\","
                              "\"size\": 8,\"hosts\": 2,\"lanes\": 4}]"));
  for (const auto& [hierarchy, name] : {std::pair(Hierarchy::kOff, "off"),
                                        std::pair(Hierarchy::kAuto, "auto")}) {
    options.hierarchy = hierarchy;
    EXPECT_THAT(ReportJson(options, result),
                HasSubstr(absl::StrCat("\"hierarchical\": \"", name, "\"")));
  }
}

TEST(ReportTest, AVerifiedRunSaysItsDifference) {
  TrainResult result = SomeResult();
  result.verify_max_abs_difference = 0;
  EXPECT_THAT(ReportJson({}, result),
              HasSubstr("\"max_abs_difference\": 0,\"different_count\": 0"));
}

TEST(ProgressTest, ALineIsTheMeanOfItsSteps) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  StepMeter meter(*runtime, 1, 4, /*keep_spans=*/false);
  for (int64_t step = 1; step <= 4; ++step) {
    meter.EndStep(0, step, static_cast<double>(step),
                  absl::Milliseconds(100 * step));
  }
  TrainOptions options;
  options.ranks = 7;
  options.micro_batches = 2;
  options.sequences = 5;
  options.shape.context = 10;
  const std::string line = ProgressLine(options, meter, 2, 4, {});
  // Steps 3 and 4: loss 3.5, 350 ms, 700 tokens each.
  EXPECT_THAT(line, HasSubstr("3.5000"));
  EXPECT_THAT(line, HasSubstr("350.0"));
  EXPECT_THAT(line, HasSubstr("2000"));
  EXPECT_THAT(ProgressHeading(options), Not(HasSubstr("scale")));
}

TEST(ProgressTest, ARunWithAScalerShowsItsScaleAndWhatItSkipped) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  StepMeter meter(*runtime, 1, 1, /*keep_spans=*/false);
  meter.EndStep(0, 1, 2, absl::Milliseconds(100));
  TrainOptions options;
  options.scaler = true;
  EXPECT_THAT(ProgressLine(options, meter, 0, 1,
                           {.loss_scale = 32768, .skipped_steps = 12}),
              ContainsRegex(" 32768 +12\n"));
  EXPECT_THAT(ProgressHeading(options), HasSubstr("loss scale  skipped\n"));
}

TEST(ProgressTest, TheSummaryShowsThePlanAndBytesBesideTheBound) {
  TrainResult result = SomeResult();
  EXPECT_THAT(Summary({}, result), Not(HasSubstr("Verify")));
  EXPECT_THAT(Summary({}, result), Not(HasSubstr("Skipped")));
  result.verify_max_abs_difference = 0;
  result.skipped_steps = 3;
  const std::string text = Summary({}, result);
  EXPECT_THAT(text, HasSubstr("5.5000 -> 2.2500 nats per byte in 3 steps"));
  EXPECT_THAT(text, HasSubstr("the plan\n"));
  EXPECT_THAT(text, ContainsRegex("rank 0 +100 +100 +10\n"));
  // A count that no whole number per step explains is not rounded away.
  EXPECT_THAT(text, ContainsRegex("rank 1 +200 +200 +10[.]3333333333333\n"));
  EXPECT_THAT(text, HasSubstr("Skipped: 3 steps"));
  EXPECT_THAT(text, HasSubstr("optimizer 0; 0 elements differ"));
  EXPECT_THAT(Introduction({}, result), HasSubstr("Plugin: loopback"));
}

TEST(ProgressTest, HostsAndGroupsAreShownIfHostsArePretended) {
  TrainResult result = SomeResult();
  result.groups = {{"sharding+ep", 8, {2, 4}}, {"sharding", 2, {}}};
  TrainOptions options;
  EXPECT_THAT(Introduction(options, result), Not(HasSubstr("Groups")));
  options.lanes_per_node = 4;
  options.shape.experts = 16;
  options.precision = DataType::kBF16;
  const std::string text = Introduction(options, result);
  EXPECT_THAT(text, HasSubstr("Hosts:  4 ranks on each, pretended\n"));
  EXPECT_THAT(text,
              HasSubstr("Groups: sharding+ep, 8 ranks as 2 hosts x 4 lanes\n"));
  EXPECT_THAT(text, HasSubstr("Groups: sharding, 2 ranks, flat\n"));
  EXPECT_THAT(text, HasSubstr("16 experts a layer"));
  EXPECT_THAT(text, HasSubstr("in bf16"));
}

TEST(ProgressTest, TheLoadOfExpertsIsInShares) {
  TrainResult result = SomeResult();
  EXPECT_THAT(Summary({}, result), Not(HasSubstr("Experts")));
  result.expert_positions = {30, 10};
  EXPECT_THAT(Summary({}, result),
              HasSubstr("Experts: shares of positions 0.750 0.250\n"));
}

TEST(PlotTest, TheCurveHasAxesAndBothHeldOutLosses) {
  const std::string svg = LossPlotSvg("a <title>", SomeResult());
  EXPECT_THAT(svg, HasSubstr("a &lt;title&gt;"));
  EXPECT_THAT(svg, HasSubstr("loss, nats per byte"));
  EXPECT_THAT(svg, HasSubstr(">step<"));
  EXPECT_THAT(svg, HasSubstr("held-out 5.500"));
  EXPECT_THAT(svg, HasSubstr("held-out 2.250"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
}

TEST(PlotTest, LossesThatAreNotFiniteAreLeftOut) {
  TrainResult result = SomeResult();
  result.steps[1].loss = std::numeric_limits<double>::quiet_NaN();
  result.held_out_loss_last = std::numeric_limits<double>::infinity();
  const std::string svg = LossPlotSvg("title", result);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(LossPlotSvg("nothing", {}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace muonshard
