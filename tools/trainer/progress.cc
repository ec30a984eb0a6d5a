#include "tools/trainer/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectives/data_type.h"
#include "tools/trainer/group_summary.h"
#include "tools/trainer/report.h"

namespace muonshard {
namespace {

void AppendBytes(const TrainResult& result, std::string& text) {
  absl::StrAppendFormat(&text, "%-20s %20s %20s %20s\n", "Bytes sent per step",
                        "counted by plugin", "bound of the plan", "control");
  for (size_t rank = 0; rank < result.ranks.size(); ++rank) {
    const RankBytes& bytes = result.ranks[rank];
    // Whole numbers without a point; any other shows that steps differ.
    absl::StrAppendFormat(&text, "  rank %-13d %20.15g %20d %20.15g\n", rank,
                          PerStep(bytes.bucket_bytes_sent, result),
                          bytes.bucket_bytes_planned,
                          PerStep(bytes.control_bytes_sent, result));
  }
}

void AppendVerify(const TrainResult& result, std::string& text) {
  if (!result.verify_max_abs_difference.has_value()) return;
  absl::StrAppendFormat(
      &text,
      "Verify: largest absolute difference to the unsharded optimizer %.17g; "
      "%d elements differ in their bits\n",
      *result.verify_max_abs_difference, result.verify_different_count);
}

// Nothing on one host, where nothing has levels.
void AppendGroups(const TrainOptions& options, const TrainResult& result,
                  std::string& text) {
  if (options.lanes_per_node == 0) return;
  absl::StrAppendFormat(&text, "Hosts:  %d ranks on each, pretended\n",
                        options.lanes_per_node);
  for (const GroupSummary& group : result.groups) {
    absl::StrAppendFormat(&text, "Groups: %s\n", Describe(group));
  }
}

void AppendExperts(const TrainResult& result, std::string& text) {
  int64_t sum = 0;
  for (const int64_t count : result.expert_positions) sum += count;
  if (sum == 0) return;
  absl::StrAppend(&text, "Experts: shares of positions");
  for (const int64_t count : result.expert_positions) {
    absl::StrAppendFormat(
        &text, " %.3f", static_cast<double>(count) / static_cast<double>(sum));
  }
  absl::StrAppend(&text, "\n\n");
}

}  // namespace

std::string ProgressHeading(const TrainOptions& options) {
  return absl::StrCat(
      "    step      loss   tokens/s    step ms  Newton-Schulz ms  exposed "
      "communication ms",
      options.scaler ? "  loss scale  skipped" : "", "\n");
}

std::string ProgressLine(const TrainOptions& options, const StepMeter& meter,
                         int64_t first, int64_t last,
                         const ScalerProgress& scaler) {
  StepMeans sum;
  for (int64_t step = first + 1; step <= last; ++step) {
    const StepMeans means = meter.MeansOf(step);
    sum.loss += means.loss;
    sum.step_ms += means.step_ms;
    sum.newton_schulz_ms += means.newton_schulz_ms;
    sum.exposed_communication_ms += means.exposed_communication_ms;
  }
  const auto steps = static_cast<double>(last - first);
  const double tokens_per_second = static_cast<double>(TokensPerStep(options)) *
                                   steps / std::max(1e-9, sum.step_ms / 1000);
  std::string text = absl::StrFormat(
      "%8d %9.4f %10.0f %10.1f %17.2f %25.2f", last, sum.loss / steps,
      tokens_per_second, sum.step_ms / steps, sum.newton_schulz_ms / steps,
      sum.exposed_communication_ms / steps);
  if (options.scaler) {
    absl::StrAppendFormat(&text, " %11.15g %8d", scaler.loss_scale,
                          scaler.skipped_steps);
  }
  return text + "\n";
}

std::string Introduction(const TrainOptions& options,
                         const TrainResult& result) {
  std::string text = absl::StrFormat(
      "Data:   %s, %d bytes to train on\n"
      "Model:  byte-level GPT, width %d, %d layers, %d heads, context %d%s: %d "
      "parameters%s\n"
      "Plugin: %s (%s)\n"
      "Ranks:  %d, mesh %s; each learns from %d x %d sequences a step\n",
      result.data_source, result.training_bytes, options.shape.width,
      options.shape.layers, options.shape.heads, options.shape.context,
      options.shape.experts == 0
          ? ""
          : absl::StrCat(", ", options.shape.experts, " experts a layer"),
      result.parameter_count,
      options.precision == DataType::kF32
          ? ""
          : absl::StrCat(" in ", PrecisionName(options.precision)),
      result.plugin_name, result.plugin_path, options.ranks, options.mesh,
      options.micro_batches, options.sequences);
  AppendGroups(options, result, text);
  return text + "\n";
}

std::string Summary(const TrainOptions& options, const TrainResult& result) {
  const StepTimes times = TimesOf(result.steps);
  std::string text = absl::StrFormat(
      "\nHeld-out loss: %.4f -> %.4f nats per byte in %d steps, %.1f s (%s)\n"
      "Step: median %.1f ms; Newton-Schulz %.2f ms and exposed communication "
      "%.2f ms a step and rank\n\n",
      result.held_out_loss_first, result.held_out_loss_last,
      result.steps.size(), result.training_seconds,
      std::string(RuleName(options.rule)), times.step_median_ms,
      times.newton_schulz_ms, times.exposed_communication_ms);
  if (result.skipped_steps > 0) {
    absl::StrAppendFormat(
        &text, "Skipped: %d steps, whose gradients were not finite\n\n",
        result.skipped_steps);
  }
  AppendExperts(result, text);
  absl::StrAppend(&text, result.plan_report);
  if (text.back() != '\n') text += '\n';
  text += '\n';
  AppendBytes(result, text);
  absl::StrAppendFormat(&text, "Parameters: hash %016x over all ranks\n",
                        result.parameter_hash);
  AppendVerify(result, text);
  return text;
}

}  // namespace muonshard
