#include "tools/trainer/trace.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/trainer/json_writer.h"

namespace muonshard {
namespace {

// Perfetto takes a row whose tid is its pid for the main thread and shows it
// first: the program's. No other row has the number of a rank.
constexpr int64_t kTidOrigin = 1'000'000'000;

// One row of the picture; rows of a rank are shown by `order`.
struct Row {
  std::string name;
  int64_t order = 0;
};

Row RowOf(const StepSpan& span) {
  constexpr int64_t kBucketsMax = 1'000'000;
  switch (span.kind) {
    case SpanKind::kWait:
      return {"wait", 1};
    case SpanKind::kControl:
      return {"control", 2};
    case SpanKind::kUpdate:
      return {"update", 3};
    case SpanKind::kReduction:
      return {absl::StrCat("reduce bucket ", span.index), 4 + span.index};
    case SpanKind::kGather:
      return {absl::StrCat("gather bucket ", span.index),
              4 + kBucketsMax + span.index};
  }
  return {"other", 0};
}

std::string NameOf(const StepSpan& span) {
  switch (span.kind) {
    case SpanKind::kWait:
      return "wait";
    case SpanKind::kControl:
      return "control";
    case SpanKind::kUpdate:
      return absl::StrCat("update part ", span.index);
    case SpanKind::kReduction:
      return absl::StrCat("reduction of bucket ", span.index);
    case SpanKind::kGather:
      return absl::StrCat("gather of bucket ", span.index);
  }
  return "other";
}

absl::string_view NameOf(ProgramPhase phase) {
  switch (phase) {
    case ProgramPhase::kForward:
      return "forward";
    case ProgramPhase::kBackward:
      return "backward";
    case ProgramPhase::kFinish:
      return "finish and step";
  }
  return "other";
}

class TraceWriter {
 public:
  explicit TraceWriter(absl::Time origin) : origin_(origin) {
    json_.BeginObject();
    json_.TextField("displayTimeUnit", "ms");
    json_.Key("traceEvents");
    json_.BeginArray();
  }

  void Add(int32_t rank, const Row& row, absl::string_view name, int64_t step,
           absl::Time begin, absl::Time end) {
    rows_.emplace(std::pair(rank, row.order), row.name);
    json_.NewLine();
    json_.BeginObject();
    json_.TextField("name", name);
    json_.TextField("ph", "X");
    json_.NumberField("ts", absl::ToDoubleMicroseconds(begin - origin_));
    json_.NumberField("dur", absl::ToDoubleMicroseconds(end - begin));
    json_.IntegerField("pid", rank);
    json_.IntegerField("tid", TidOf(rank, row.order));
    json_.Key("args");
    json_.BeginObject();
    json_.IntegerField("step", step);
    json_.EndObject();
    json_.EndObject();
  }

  std::string Finish() {
    int32_t named_rank = -1;
    for (const auto& [place, name] : rows_) {
      const auto [rank, order] = place;
      if (rank != named_rank) {
        Name("process_name", rank, 0, absl::StrCat("rank ", rank));
        Sort("process_sort_index", rank, 0, rank);
        named_rank = rank;
      }
      Name("thread_name", rank, order, name);
      Sort("thread_sort_index", rank, order, order);
    }
    json_.NewLine();
    json_.EndArray();
    json_.EndObject();
    return json_.text();
  }

 private:
  static int64_t TidOf(int32_t rank, int64_t order) {
    return order == 0 ? rank : kTidOrigin + order;
  }

  void BeginMetadata(absl::string_view what, int32_t rank, int64_t order) {
    json_.NewLine();
    json_.BeginObject();
    json_.TextField("name", what);
    json_.TextField("ph", "M");
    json_.IntegerField("pid", rank);
    json_.IntegerField("tid", TidOf(rank, order));
    json_.Key("args");
    json_.BeginObject();
  }

  void EndMetadata() {
    json_.EndObject();
    json_.EndObject();
  }

  void Name(absl::string_view what, int32_t rank, int64_t order,
            absl::string_view name) {
    BeginMetadata(what, rank, order);
    json_.TextField("name", name);
    EndMetadata();
  }

  void Sort(absl::string_view what, int32_t rank, int64_t order,
            int64_t index) {
    BeginMetadata(what, rank, order);
    json_.IntegerField("sort_index", index);
    EndMetadata();
  }

  const absl::Time origin_;
  JsonWriter json_;
  // By rank and order.
  std::map<std::pair<int32_t, int64_t>, std::string> rows_;
};

}  // namespace

std::string TraceJson(std::span<const ProgramSpan> program_spans,
                      std::span<const RankSpan> rank_spans) {
  absl::Time origin = absl::InfiniteFuture();
  for (const ProgramSpan& span : program_spans) {
    origin = std::min(origin, span.begin);
  }
  for (const RankSpan& span : rank_spans) {
    origin = std::min(origin, span.span.begin);
  }
  TraceWriter writer(origin);
  for (const ProgramSpan& span : program_spans) {
    writer.Add(span.rank, {"program", 0}, NameOf(span.phase), span.step,
               span.begin, span.end);
  }
  for (const RankSpan& span : rank_spans) {
    writer.Add(span.rank, RowOf(span.span), NameOf(span.span), span.span.step,
               span.span.begin, span.span.end);
  }
  return writer.Finish();
}

}  // namespace muonshard
