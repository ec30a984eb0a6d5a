#include "tools/trainer/report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "optimizer/options.h"
#include "tools/trainer/group_summary.h"
#include "tools/trainer/json_writer.h"

namespace muonshard {
namespace {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

void WriteOptions(const TrainOptions& options, JsonWriter& json) {
  json.Key("options");
  json.BeginObject();
  json.IntegerField("ranks", options.ranks);
  json.TextField("mesh", options.mesh);
  json.IntegerField("steps", options.steps);
  json.IntegerField("lanes_per_node", options.lanes_per_node);
  json.IntegerField("accumulate", options.micro_batches);
  json.NumberField("bucket_mib", options.bucket_mib);
  json.BoolField("overlap", options.overlap);
  json.TextField("gather", GatherModeName(options.gather));
  json.TextField("hierarchical", HierarchyName(options.hierarchy));
  json.TextField("precision", PrecisionName(options.precision));
  json.BoolField("scaler", options.scaler);
  json.TextField("rule", RuleName(options.rule));
  json.NumberField("lr", options.muon_learning_rate);
  json.NumberField("adamw_lr", options.adamw_learning_rate);
  json.NumberField("clip", options.clip_norm);
  json.Key("seed");
  json.Unsigned(options.seed);
  json.BoolField("deterministic", options.deterministic);
  json.IntegerField("width", options.shape.width);
  json.IntegerField("layers", options.shape.layers);
  json.IntegerField("heads", options.shape.heads);
  json.IntegerField("context", options.shape.context);
  json.IntegerField("experts", options.shape.experts);
  json.IntegerField("sequences", options.sequences);
  json.EndObject();
}

void WriteLoss(const TrainResult& result, JsonWriter& json) {
  json.Key("loss");
  json.BeginObject();
  json.NumberField("held_out_first", result.held_out_loss_first);
  json.NumberField("held_out_last", result.held_out_loss_last);
  json.Key("curve");
  json.BeginArray();
  for (const StepMeans& step : result.steps) json.Number(step.loss);
  json.EndArray();
  json.EndObject();
}

// `count` of each rank, over all steps and of one.
void WriteCounts(const TrainResult& result, absl::string_view prefix,
                 uint64_t RankBytes::*count, JsonWriter& json) {
  json.Key(absl::StrCat(prefix, "per_rank"));
  json.BeginArray();
  for (const RankBytes& rank : result.ranks) {
    json.Number(PerStep(rank.*count, result));
  }
  json.EndArray();
  json.Key(absl::StrCat(prefix, "total_per_rank"));
  json.BeginArray();
  for (const RankBytes& rank : result.ranks) json.Unsigned(rank.*count);
  json.EndArray();
}

void WriteWireBytes(const TrainResult& result, JsonWriter& json) {
  json.Key("wire_bytes");
  json.BeginObject();
  WriteCounts(result, "", &RankBytes::bucket_bytes_sent, json);
  int64_t bound = 0;
  json.Key("bound_per_rank");
  json.BeginArray();
  for (const RankBytes& rank : result.ranks) {
    json.Integer(rank.bucket_bytes_planned);
    bound += rank.bucket_bytes_planned;
  }
  json.EndArray();
  json.IntegerField("bound", bound);
  WriteCounts(result, "control_", &RankBytes::control_bytes_sent, json);
  json.EndObject();
}

void WriteTimes(const TrainResult& result, JsonWriter& json) {
  const StepTimes times = TimesOf(result.steps);
  json.Key("time_ms");
  json.BeginObject();
  json.NumberField("step_median", times.step_median_ms);
  json.NumberField("newton_schulz", times.newton_schulz_ms);
  json.NumberField("exposed_communication", times.exposed_communication_ms);
  json.NumberField("training", result.training_seconds * 1000);
  json.EndObject();
}

void WriteVerify(const TrainResult& result, JsonWriter& json) {
  json.Key("verify");
  json.BeginObject();
  json.Key("max_abs_difference");
  if (result.verify_max_abs_difference.has_value()) {
    json.Number(*result.verify_max_abs_difference);
  } else {
    json.Null();
  }
  json.IntegerField("different_count", result.verify_different_count);
  json.EndObject();
}

void WriteExperts(const TrainResult& result, JsonWriter& json) {
  json.Key("experts");
  json.BeginObject();
  json.Key("positions");
  json.BeginArray();
  for (const int64_t count : result.expert_positions) json.Integer(count);
  json.EndArray();
  json.EndObject();
}

void WritePlan(const TrainResult& result, JsonWriter& json) {
  json.Key("plan");
  json.BeginObject();
  json.NumberField("imbalance", result.imbalance);
  json.NumberField("padding_fraction", result.padding_fraction);
  json.IntegerField("buckets", result.bucket_count);
  json.Key("groups");
  json.BeginArray();
  for (const GroupSummary& group : result.groups) {
    json.BeginObject();
    json.TextField("axes", group.axes);
    json.IntegerField("size", group.size);
    json.IntegerField("hosts", group.levels.hosts);
    json.IntegerField("lanes", group.levels.lanes);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace

StepTimes TimesOf(const std::vector<StepMeans>& steps) {
  StepTimes times;
  std::vector<double> step_ms;
  const auto count = static_cast<double>(std::max<size_t>(1, steps.size()));
  for (const StepMeans& step : steps) {
    step_ms.push_back(step.step_ms);
    times.newton_schulz_ms += step.newton_schulz_ms / count;
    times.exposed_communication_ms += step.exposed_communication_ms / count;
  }
  times.step_median_ms = Median(std::move(step_ms));
  return times;
}

double PerStep(uint64_t count, const TrainResult& result) {
  return static_cast<double>(count) /
         static_cast<double>(std::max<size_t>(1, result.steps.size()));
}

std::string ReportJson(const TrainOptions& options, const TrainResult& result) {
  JsonWriter json;
  json.BeginObject();
  json.NewLine();
  json.TextField("plugin", result.plugin_name);
  json.NewLine();
  json.TextField("plugin_path", result.plugin_path);
  json.NewLine();
  json.TextField("data", result.data_source);
  json.NewLine();
  json.IntegerField("parameters", result.parameter_count);
  json.NewLine();
  WriteOptions(options, json);
  json.NewLine();
  json.IntegerField("skipped_steps", result.skipped_steps);
  json.NewLine();
  json.NumberField("loss_scale", result.loss_scale);
  json.NewLine();
  json.TextField("parameter_hash",
                 absl::StrFormat("%016x", result.parameter_hash));
  json.NewLine();
  WriteLoss(result, json);
  json.NewLine();
  WriteVerify(result, json);
  json.NewLine();
  WriteWireBytes(result, json);
  json.NewLine();
  WriteTimes(result, json);
  json.NewLine();
  WriteExperts(result, json);
  json.NewLine();
  WritePlan(result, json);
  json.NewLine();
  json.EndObject();
  return json.text() + "\n";
}

}  // namespace muonshard
