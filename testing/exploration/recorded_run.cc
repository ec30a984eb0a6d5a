#include "testing/exploration/recorded_run.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muonshard::testing {
namespace {

constexpr absl::string_view kTitle = "muonshard trace ";
constexpr int kVersion = 1;
constexpr absl::string_view kEnd = "end";
constexpr absl::string_view kNoTrace = "none";

absl::Status Invalid(absl::string_view what, absl::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat(
      "want ", what, ", got \"", absl::CEscape(got.substr(0, 100)), "\""));
}

absl::StatusOr<uint64_t> Number(absl::string_view text) {
  uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return Invalid("a whole number", text);
  return value;
}

absl::StatusOr<std::string> Unescaped(absl::string_view text) {
  std::string unescaped;
  if (!absl::CUnescape(text, &unescaped)) return Invalid("escaped text", text);
  return unescaped;
}

// Reads the lines of a file one after another.
class Lines {
 public:
  explicit Lines(absl::string_view text) : lines_(absl::StrSplit(text, '\n')) {}

  // The next line, or an error when the file ends before it.
  absl::StatusOr<absl::string_view> Next(absl::string_view what) {
    // What follows the last line break is no line.
    if (next_ + 1 >= lines_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the trace is cut short: want ", what, " in line ",
                       next_ + 1, ", got the end of the file"));
    }
    return lines_[next_++];
  }

  // What follows "name: " in the next line.
  absl::StatusOr<absl::string_view> Field(absl::string_view name) {
    absl::StatusOr<absl::string_view> line = Next(name);
    if (!line.ok()) return line;
    if (!absl::ConsumePrefix(&*line, absl::StrCat(name, ": "))) {
      return At(Invalid(absl::StrCat(name, ": ..."), *line));
    }
    return line;
  }

  absl::StatusOr<uint64_t> NumberField(absl::string_view name) {
    absl::StatusOr<absl::string_view> text = Field(name);
    if (!text.ok()) return text.status();
    absl::StatusOr<uint64_t> value = Number(*text);
    if (!value.ok()) return At(value.status());
    return value;
  }

  bool at_end() const { return next_ + 1 >= lines_.size(); }

  // Names the line that was read last.
  absl::Status At(const absl::Status& status) const {
    return absl::Status(status.code(),
                        absl::StrCat("line ", next_, ": ", status.message()));
  }

 private:
  const std::vector<absl::string_view> lines_;
  size_t next_ = 0;
};

absl::Status ReadTitle(Lines& lines) {
  absl::StatusOr<absl::string_view> title = lines.Next("the title");
  if (!title.ok()) return title.status();
  absl::string_view version = *title;
  if (!absl::ConsumePrefix(&version, kTitle)) {
    return lines.At(Invalid("a trace of muonshard", *title));
  }
  if (version != absl::StrCat(kVersion)) {
    return lines.At(
        Invalid(absl::StrCat("a trace of version ", kVersion), version));
  }
  return absl::OkStatus();
}

absl::Status ReadResult(Lines& lines, RecordedRun& run) {
  absl::StatusOr<uint64_t> code = lines.NumberField("code");
  if (!code.ok()) return code.status();
  absl::StatusOr<absl::string_view> escaped = lines.Field("result");
  if (!escaped.ok()) return escaped.status();
  absl::StatusOr<std::string> message = Unescaped(*escaped);
  if (!message.ok()) return lines.At(message.status());
  run.result = absl::Status(static_cast<absl::StatusCode>(*code), *message);
  return absl::OkStatus();
}

absl::Status ReadTrace(Lines& lines, RecordedRun& run) {
  absl::StatusOr<absl::string_view> count_text = lines.Field("deviations");
  if (!count_text.ok()) return count_text.status();
  if (*count_text == kNoTrace) return absl::OkStatus();
  absl::StatusOr<uint64_t> count = Number(*count_text);
  if (!count.ok()) return lines.At(count.status());
  std::vector<std::string> words;
  for (uint64_t i = 0; i < *count; ++i) {
    absl::StatusOr<absl::string_view> word = lines.Next("a deviation");
    if (!word.ok()) return word.status();
    words.emplace_back(*word);
  }
  absl::StatusOr<SimTrace> trace = TraceFromWords(words);
  if (!trace.ok()) return lines.At(trace.status());
  run.trace = *std::move(trace);
  return absl::OkStatus();
}

}  // namespace

std::string ToWord(const SimDeviation& deviation) {
  return absl::StrCat(deviation.choice, ":", deviation.task);
}

absl::StatusOr<SimTrace> TraceFromWords(const std::vector<std::string>& words) {
  SimTrace trace;
  for (const std::string& word : words) {
    const std::vector<absl::string_view> halves = absl::StrSplit(word, ':');
    SimDeviation deviation;
    if (halves.size() != 2 || !absl::SimpleAtoi(halves[0], &deviation.choice) ||
        !absl::SimpleAtoi(halves[1], &deviation.task)) {
      return Invalid("CHOICE:TASK", word);
    }
    if (!trace.empty() && deviation.choice <= trace.back().choice) {
      return Invalid("choices in ascending order", word);
    }
    trace.push_back(deviation);
  }
  return trace;
}

std::string ToLine(const RecordedRun& run) {
  std::string line =
      absl::StrCat(run.seed, "\t", run.result.raw_code(), "\t", run.trace_hash,
                   "\t", run.choice_count, "\t", run.length, "\t",
                   absl::CEscape(run.result.message()), "\t");
  if (!run.trace.has_value()) return absl::StrCat(line, kNoTrace);
  for (const SimDeviation& deviation : *run.trace) {
    absl::StrAppend(&line, ToWord(deviation), " ");
  }
  return line;
}

absl::StatusOr<RecordedRun> RunFromLine(absl::string_view line) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
  RecordedRun run;
  int code = 0;
  std::string message;
  if (fields.size() != 7 || !absl::SimpleAtoi(fields[0], &run.seed) ||
      !absl::SimpleAtoi(fields[1], &code) ||
      !absl::SimpleAtoi(fields[2], &run.trace_hash) ||
      !absl::SimpleAtoi(fields[3], &run.choice_count) ||
      !absl::SimpleAtoi(fields[4], &run.length) ||
      !absl::CUnescape(fields[5], &message)) {
    return Invalid("the line of a run", line);
  }
  run.result = absl::Status(static_cast<absl::StatusCode>(code), message);
  if (fields[6] == kNoTrace) return run;
  absl::StatusOr<SimTrace> trace =
      TraceFromWords(absl::StrSplit(fields[6], ' ', absl::SkipEmpty()));
  if (!trace.ok()) return trace.status();
  run.trace = *std::move(trace);
  return run;
}

std::string ToText(const TraceFile& file) {
  const RecordedRun& run = file.run;
  std::string text = absl::StrCat(
      kTitle, kVersion, "\nflags: ", file.flags, "\nseed: ", run.seed,
      "\nchoices: ", run.choice_count, "\nlength: ", run.length,
      "\nhash: ", run.trace_hash, "\ncode: ", run.result.raw_code(),
      "\nresult: ", absl::CEscape(run.result.message()), "\ndeviations: ");
  if (run.trace.has_value()) {
    absl::StrAppend(&text, run.trace->size(), "\n");
    for (const SimDeviation& deviation : *run.trace) {
      absl::StrAppend(&text, ToWord(deviation), "\n");
    }
  } else {
    absl::StrAppend(&text, kNoTrace, "\n");
  }
  return absl::StrCat(text, kEnd, "\n");
}

absl::StatusOr<TraceFile> TraceFileFromText(absl::string_view text) {
  Lines lines(text);
  if (absl::Status s = ReadTitle(lines); !s.ok()) return s;
  TraceFile file;
  absl::StatusOr<absl::string_view> flags = lines.Field("flags");
  if (!flags.ok()) return flags.status();
  file.flags = std::string(*flags);
  const std::pair<absl::string_view, uint64_t*> numbers[] = {
      {"seed", &file.run.seed},
      {"choices", &file.run.choice_count},
      {"length", &file.run.length},
      {"hash", &file.run.trace_hash}};
  for (const auto& [name, value] : numbers) {
    absl::StatusOr<uint64_t> number = lines.NumberField(name);
    if (!number.ok()) return number.status();
    *value = *number;
  }
  if (absl::Status s = ReadResult(lines, file.run); !s.ok()) return s;
  if (absl::Status s = ReadTrace(lines, file.run); !s.ok()) return s;
  absl::StatusOr<absl::string_view> end = lines.Next(kEnd);
  if (!end.ok()) return end.status();
  if (*end != kEnd) return lines.At(Invalid(kEnd, *end));
  if (!lines.at_end()) return lines.At(Invalid("nothing after it", "more"));
  return file;
}

}  // namespace muonshard::testing
