#include "tools/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/host_exchange.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/threads_runtime.h"
#include "optimizer/plan.h"
#include "tools/trainer/gpt_model.h"
#include "tools/trainer/group_summary.h"
#include "tools/trainer/model_placement.h"
#include "tools/trainer/output_files.h"
#include "tools/trainer/plan_flags.h"
#include "tools/trainer/plot.h"
#include "tools/trainer/progress.h"
#include "tools/trainer/rank_trainer.h"
#include "tools/trainer/report.h"
#include "tools/trainer/trace.h"
#include "topology/host_map.h"

namespace muonshard {
namespace {

absl::Status CheckOutputs(const TrainOptions& options) {
  for (const auto& [flag, path] : {std::pair("--report", &options.report_path),
                                   std::pair("--trace", &options.trace_path),
                                   std::pair("--plot", &options.plot_path)}) {
    if (path->empty()) continue;
    if (absl::Status s = CheckWritable(flag, *path); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<TextData> LoadData(const TrainOptions& options) {
  if (!options.data_path.empty()) {
    return TextData::FromFile(options.data_path, options.shape.context);
  }
  return TextData::FromFolder(std::string(kDefaultTextFolder),
                              options.shape.context);
}

// The first error that is a cause: a rank whose group was aborted only follows
// another.
absl::Status FirstError(const std::vector<absl::Status>& statuses) {
  absl::Status first;
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    const absl::Status& status = statuses[rank];
    if (status.ok()) continue;
    const bool cause = !absl::IsAborted(status);
    if (!first.ok() && (!cause || !absl::IsAborted(first))) continue;
    first = absl::Status(status.code(),
                         absl::StrCat("rank ", rank, ": ", status.message()));
  }
  return first;
}

double MeanHeldOut(const std::vector<RankResult>& ranks,
                   std::vector<double> RankResult::*losses) {
  double sum = 0;
  for (int64_t b = 0; b < kHeldOutBatches; ++b) {
    const size_t rank = static_cast<size_t>(b) % ranks.size();
    sum += (ranks[rank].*losses)[static_cast<size_t>(b)];
  }
  return sum / static_cast<double>(kHeldOutBatches);
}

void FillVerify(const std::vector<RankResult>& ranks, TrainResult& result) {
  double max_abs = 0;
  for (const RankResult& rank : ranks) {
    result.verify_different_count += rank.difference.different_count;
    max_abs = std::isnan(rank.difference.max_abs)
                  ? std::numeric_limits<double>::quiet_NaN()
                  : std::max(max_abs, rank.difference.max_abs);
  }
  result.verify_max_abs_difference = max_abs;
}

void FillResult(const std::vector<RankResult>& ranks, const TrainRun& run,
                TrainResult& result) {
  result.held_out_loss_first = MeanHeldOut(ranks, &RankResult::held_out_first);
  result.held_out_loss_last = MeanHeldOut(ranks, &RankResult::held_out_last);
  result.steps = run.meter.Means();
  absl::Time begin = absl::InfiniteFuture();
  absl::Time end = absl::InfinitePast();
  for (const RankResult& rank : ranks) {
    begin = std::min(begin, rank.training_begin);
    end = std::max(end, rank.training_end);
    result.ranks.push_back(rank.bytes);
  }
  result.training_seconds = absl::ToDoubleSeconds(end - begin);
  result.skipped_steps = ranks[0].skipped_steps;
  result.loss_scale = ranks[0].loss_scale;
  result.expert_positions.resize(ranks[0].expert_positions.size());
  for (const RankResult& rank : ranks) {
    for (size_t e = 0; e < rank.expert_positions.size(); ++e) {
      result.expert_positions[e] += rank.expert_positions[e];
    }
  }
  result.imbalance = ranks[0].imbalance;
  result.padding_fraction = ranks[0].padding_fraction;
  result.bucket_count = ranks[0].bucket_count;
  result.plan_report = ranks[0].plan_report;
  if (run.verifier != nullptr) FillVerify(ranks, result);
}

// By rank.
std::vector<std::string> HostIdsOf(const TrainOptions& options) {
  std::vector<std::string> host_ids;
  for (int32_t rank = 0; rank < options.ranks; ++rank) {
    host_ids.push_back(
        options.lanes_per_node == 0
            ? LocalHostId()
            : absl::StrCat("node", rank / options.lanes_per_node));
  }
  return host_ids;
}

absl::Status CheckPretendedHosts(const TrainOptions& options,
                                 const Plugin& plugin) {
  if (options.lanes_per_node == 0 || plugin.name() == "loopback") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--lanes-per-node: hosts can be pretended with plugin "
                   "\"loopback\" alone, got \"",
                   plugin.name(), "\""));
}

// Null without --verify.
absl::StatusOr<std::unique_ptr<Verifier>> MakeVerifier(const TrainRun& run) {
  if (!run.options.verify) return nullptr;
  VerifySetup setup;
  setup.specs = run.specs;
  setup.mesh = run.mesh;
  setup.hosts = HostMap::FromHostIds(run.host_ids);
  setup.options = run.optimizer_options;
  setup.first_values = [&run](Rank rank, int32_t parameter) {
    const auto p = static_cast<size_t>(parameter);
    return FirstValuesAt(run.specs[p], run.initial_values[p],
                         ExpertPlaceOf(run.options.shape, run.mesh, rank));
  };
  setup.clip_norm = run.options.clip_norm;
  if (run.options.scaler) setup.scaler = run.options.scaler_options;
  return Verifier::Create(run.runtime, std::move(setup));
}

// A result with what is known before the first step.
TrainResult Described(const TrainRun& run, const Plan& plan) {
  TrainResult result;
  result.plugin_name = std::string(run.plugin.name());
  result.plugin_path = std::string(run.plugin.path());
  result.data_source = run.data.source();
  result.training_bytes = static_cast<int64_t>(run.data.training().size());
  for (const std::vector<float>& values : run.initial_values) {
    result.parameter_count += static_cast<int64_t>(values.size());
  }
  result.groups = GroupsOf(plan);
  return result;
}

absl::Status RunAllRanks(TrainRun& run, TrainResult& result) {
  std::vector<RankResult> ranks(static_cast<size_t>(run.options.ranks));
  const std::vector<absl::Status> statuses =
      RunRanks(run.runtime, run.options.ranks, [&](Rank rank) {
        absl::StatusOr<RankResult> of_rank = TrainOneRank(run, rank);
        if (!of_rank.ok()) return of_rank.status();
        ranks[static_cast<size_t>(ToInt(rank))] = *std::move(of_rank);
        return absl::OkStatus();
      });
  if (absl::Status s = FirstError(statuses); !s.ok()) return s;
  FillResult(ranks, run, result);
  return absl::OkStatus();
}

// The lines of progress that no later step has shown.
void ShowLastLine(const TrainRun& run, const TrainResult& result) {
  const int64_t steps = run.options.steps;
  const int64_t shown =
      (steps - 1) / run.options.interval * run.options.interval;
  run.show(ProgressLine(run.options, run.meter, shown, steps,
                        {result.loss_scale, result.skipped_steps}));
}

absl::Status WriteOutputs(const TrainOptions& options, const StepMeter& meter,
                          const TrainResult& result) {
  if (!options.report_path.empty()) {
    if (absl::Status s = WriteFile("--report", options.report_path,
                                   ReportJson(options, result));
        !s.ok()) {
      return s;
    }
  }
  if (!options.trace_path.empty()) {
    if (absl::Status s =
            WriteFile("--trace", options.trace_path,
                      TraceJson(meter.program_spans(), meter.rank_spans()));
        !s.ok()) {
      return s;
    }
  }
  if (options.plot_path.empty()) return absl::OkStatus();
  const std::string title = absl::StrCat(
      "Training loss, ", RuleName(options.rule), ", ", options.ranks, " ranks");
  return WriteFile("--plot", options.plot_path, LossPlotSvg(title, result));
}

}  // namespace

OptimizerOptions OptimizerOptionsOf(const TrainOptions& options) {
  OptimizerOptions result;
  result.muon.learning_rate = options.muon_learning_rate;
  result.adamw.learning_rate = options.adamw_learning_rate;
  result.plan.bucket_bytes_max = BucketBytesMax(options.bucket_mib);
  result.plan.hierarchy = options.hierarchy;
  result.overlap = options.overlap;
  result.gather = options.gather;
  return result;
}

absl::StatusOr<TrainResult> Train(const TrainOptions& options,
                                  const TextSink& show) {
  if (absl::Status s = CheckOutputs(options); !s.ok()) return s;
  const absl::StatusOr<TextData> data = LoadData(options);
  if (!data.ok()) return data.status();
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(options.mesh);
  if (!mesh.ok()) return mesh.status();
  if (absl::Status s = mesh->CheckSize(options.ranks); !s.ok()) return s;
  if (absl::Status s = Validate(options.shape); !s.ok()) return s;
  absl::StatusOr<std::vector<ParameterSpec>> specs = PlaceOnMesh(
      options.shape,
      GptParameterSpecs(options.shape, options.rule, options.precision), *mesh);
  if (!specs.ok()) return specs.status();
  const std::vector<std::string> host_ids = HostIdsOf(options);
  const OptimizerOptions optimizer_options = OptimizerOptionsOf(options);
  // Each rank makes it too; here it is refused, and described, before any
  // starts.
  const absl::StatusOr<Plan> plan = Plan::Create(
      *specs, *mesh, HostMap::FromHostIds(host_ids), optimizer_options);
  if (!plan.ok()) return plan.status();

  // Ranks are the parallelism, and the number of threads changes the bits of a
  // product. Set here, before any task computes.
  UseOneThread();
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  // Outlives the plugin, whose tasks report to it.
  StepMeter meter(*runtime, options.ranks, options.steps,
                  !options.trace_path.empty());
  const absl::StatusOr<std::unique_ptr<Plugin>> plugin = Plugin::Open(
      PluginSearchFromEnvironment(options.plugin, options.plugin_options),
      *runtime);
  if (!plugin.ok()) return plugin.status();
  if (absl::Status s = CheckPretendedHosts(options, **plugin); !s.ok()) {
    return s;
  }
  const std::unique_ptr<Store> store = NewInProcessStore(*runtime);
  TrainRun run{.options = options,
               .mesh = *mesh,
               .data = *data,
               .specs = *std::move(specs),
               .initial_values = GptInitialValues(options.shape, options.seed),
               .host_ids = host_ids,
               .optimizer_options = optimizer_options,
               .runtime = *runtime,
               .plugin = **plugin,
               .store = *store,
               .meter = meter,
               .show = show};
  const absl::StatusOr<std::unique_ptr<Verifier>> verifier = MakeVerifier(run);
  if (!verifier.ok()) return verifier.status();
  run.verifier = verifier->get();

  TrainResult result = Described(run, *plan);
  show(Introduction(options, result));
  show(ProgressHeading(options));
  if (absl::Status s = RunAllRanks(run, result); !s.ok()) return s;
  ShowLastLine(run, result);
  show(Summary(options, result));
  if (absl::Status s = WriteOutputs(options, meter, result); !s.ok()) return s;
  return result;
}

}  // namespace muonshard
