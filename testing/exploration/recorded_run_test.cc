#include "testing/exploration/recorded_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

RecordedRun FailedRun() {
  return {
      .seed = 37,
      .result = absl::DataLossError("want \"a\\b\",\n\tgot nothing"),
      .trace_hash = 0xffffffffffffffff,
      .choice_count = 5321,
      .trace = SimTrace{{.choice = 12, .task = 3}, {.choice = 40, .task = 7}}};
}

TraceFile FileOf(const RecordedRun& run) {
  return {.flags = "--mesh=data=4,tp=2 --overlap=on", .run = run};
}

void ExpectSame(const RecordedRun& got, const RecordedRun& want) {
  EXPECT_EQ(got.seed, want.seed);
  EXPECT_EQ(got.result, want.result);
  EXPECT_EQ(got.trace_hash, want.trace_hash);
  EXPECT_EQ(got.choice_count, want.choice_count);
  EXPECT_EQ(got.length, want.length);
  EXPECT_EQ(got.trace, want.trace);
}

// Runs that failed, held, crashed, and deviated nowhere.
std::vector<RecordedRun> AllKinds() {
  RecordedRun held;
  held.seed = 1;
  RecordedRun crashed = FailedRun();
  crashed.trace.reset();
  RecordedRun straight = FailedRun();
  straight.trace = SimTrace();
  return {FailedRun(), held, crashed, straight};
}

TEST(RecordedRun, GoesThroughALine) {
  for (const RecordedRun& run : AllKinds()) {
    const std::string line = ToLine(run);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const absl::StatusOr<RecordedRun> got = RunFromLine(line);
    ASSERT_THAT(got, IsOk());
    ExpectSame(*got, run);
  }
}

TEST(RecordedRun, ALineThatIsNoneIsRefused) {
  for (const char* line :
       {"", "1\t2\t3", "1\t2\t3\t4\t5\tx\t5:a ", "1\t2\t3\t4\t5\tx\t5:1 4:1 ",
        "a\t2\t3\t4\t5\tx\tnone"}) {
    EXPECT_THAT(RunFromLine(line),
                StatusIs(absl::StatusCode::kInvalidArgument, "want"))
        << line;
  }
}

TEST(TraceFile, GoesThroughItsText) {
  for (const RecordedRun& run : AllKinds()) {
    const absl::StatusOr<TraceFile> got =
        TraceFileFromText(ToText(FileOf(run)));
    ASSERT_THAT(got, IsOk());
    EXPECT_EQ(got->flags, FileOf(run).flags);
    ExpectSame(got->run, run);
  }
}

TEST(TraceFile, OneThatIsCutShortAnywhereIsRefused) {
  const std::string text = ToText(FileOf(FailedRun()));
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_THAT(TraceFileFromText(text.substr(0, length)),
                StatusIs(absl::StatusCode::kInvalidArgument, ""))
        << text.substr(0, length);
  }
  EXPECT_THAT(TraceFileFromText(text.substr(0, text.size() - 4)),
              StatusIs(absl::StatusCode::kInvalidArgument, "cut short"));
}

TEST(TraceFile, OneOfAnotherVersionIsRefused) {
  const std::string text = absl::StrReplaceAll(ToText(FileOf(FailedRun())),
                                               {{"trace 1", "trace 2"}});
  EXPECT_THAT(TraceFileFromText(text),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "line 1: want a trace of version 1, got \"2\""));
}

TEST(TraceFile, TheErrorNamesTheLine) {
  const std::string text = ToText(FileOf(FailedRun()));
  EXPECT_THAT(TraceFileFromText("#!/bin/sh\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "line 1: want a trace of muonshard"));
  const auto with = [&](const char* from, const char* to) {
    return TraceFileFromText(absl::StrReplaceAll(text, {{from, to}}));
  };
  EXPECT_THAT(with("seed: 37", "seed: x"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "line 3: want a whole number, got \"x\""));
  EXPECT_THAT(with("choices: ", "turns: "),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "line 4: want choices: ..."));
  EXPECT_THAT(with("deviations: 2", "deviations: many"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "line 9: want a whole number, got \"many\""));
  EXPECT_THAT(with("40:7", "40-7"), StatusIs(absl::StatusCode::kInvalidArgument,
                                             "want CHOICE:TASK, got \"40-7\""));
  EXPECT_THAT(with("40:7", "11:7"),
              StatusIs(absl::StatusCode::kInvalidArgument, "ascending"));
  EXPECT_THAT(with("deviations: 2", "deviations: 1"),
              StatusIs(absl::StatusCode::kInvalidArgument, "want end"));
  EXPECT_THAT(TraceFileFromText(absl::StrCat(text, "more\n")),
              StatusIs(absl::StatusCode::kInvalidArgument, "nothing after"));
}

}  // namespace
}  // namespace muonshard::testing
