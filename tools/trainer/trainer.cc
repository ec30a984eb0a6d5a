#include "tools/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/host_exchange.h"
#include "collectives/job_place.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/threads_runtime.h"
#include "optimizer/plan.h"
#include "tools/trainer/byte_hash.h"
#include "tools/trainer/gpt_model.h"
#include "tools/trainer/group_summary.h"
#include "tools/trainer/model_placement.h"
#include "tools/trainer/output_files.h"
#include "tools/trainer/plan_flags.h"
#include "tools/trainer/plot.h"
#include "tools/trainer/progress.h"
#include "tools/trainer/rank_exchange.h"
#include "tools/trainer/rank_trainer.h"
#include "tools/trainer/report.h"
#include "tools/trainer/trace.h"
#include "topology/host_map.h"

namespace muonshard {
namespace {

// Whether this process is a rank that others report for.
bool IsSilent(const TrainOptions& options) {
  return options.place.has_value() && options.place->rank != Rank{0};
}

absl::Status CheckOutputs(const TrainOptions& options) {
  if (IsSilent(options)) return absl::OkStatus();
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

absl::Status OfRank(int32_t rank, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("rank ", rank, ": ", status.message()));
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
    first = OfRank(static_cast<int32_t>(rank), status);
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

void FillResult(const TrainRun& run, TrainResult& result) {
  const std::vector<RankResult>& ranks = run.results;
  result.held_out_loss_first = MeanHeldOut(ranks, &RankResult::held_out_first);
  result.held_out_loss_last = MeanHeldOut(ranks, &RankResult::held_out_last);
  result.steps = run.meter.Means();
  absl::Time begin = absl::InfiniteFuture();
  absl::Time end = absl::InfinitePast();
  result.parameter_hash = kByteHashStart;
  for (const RankResult& rank : ranks) {
    result.parameter_hash =
        HashBytes(result.parameter_hash,
                  std::as_bytes(std::span(&rank.parameter_hash, 1)));
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

// By rank, of ranks in one process.
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

// Where the ranks of this run meet: the job's store, or one within the process.
absl::StatusOr<std::unique_ptr<Store>> OpenStoreOf(const TrainOptions& options,
                                                   absl::Duration timeout,
                                                   Runtime& runtime) {
  if (!options.place.has_value()) return NewInProcessStore(runtime);
  return OpenJobStore(runtime, *options.place, runtime.Now() + timeout);
}

absl::StatusOr<std::vector<std::string>> FindHostIds(
    const TrainOptions& options, absl::Duration timeout, Runtime& runtime,
    Store& store) {
  if (!options.place.has_value()) return HostIdsOf(options);
  if (options.lanes_per_node != 0) {
    return absl::InvalidArgumentError(
        "--lanes-per-node: ranks that are processes have real hosts");
  }
  return ExchangeThroughStore(store, "host", options.place->rank,
                              options.place->size, LocalHostId(),
                              runtime.Now() + timeout);
}

absl::Status CheckJoinsProcesses(const TrainOptions& options,
                                 const Plugin& plugin) {
  if (!options.place.has_value() || options.ranks == 1 ||
      plugin.name() != "loopback") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--plugin: ", options.place->launcher, " has started ", options.ranks,
      " processes, and plugin \"loopback\" joins threads of one; want one that "
      "joins processes, as --plugin=ucx"));
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

absl::Status RunAllRanks(TrainRun& run) {
  return FirstError(RunRanks(run.runtime, run.options.ranks, [&run](Rank rank) {
    return TrainOneRank(run, rank);
  }));
}

absl::Status RunOwnRank(TrainRun& run) {
  const Rank rank = run.options.place->rank;
  const absl::Status status = TrainOneRank(run, rank);
  return status.ok() ? status : OfRank(ToInt(rank), status);
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
  if (IsSilent(options)) return absl::OkStatus();
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

absl::StatusOr<TrainResult> RunAndReport(TrainRun& run, const Plan& plan) {
  const absl::StatusOr<std::unique_ptr<Verifier>> verifier = MakeVerifier(run);
  if (!verifier.ok()) return verifier.status();
  run.verifier = verifier->get();
  TrainResult result = Described(run, plan);
  run.show(Introduction(run.options, result));
  run.show(ProgressHeading(run.options));
  if (absl::Status s = run.is_process ? RunOwnRank(run) : RunAllRanks(run);
      !s.ok()) {
    return s;
  }
  FillResult(run, result);
  ShowLastLine(run, result);
  run.show(Summary(run.options, result));
  if (absl::Status s = WriteOutputs(run.options, run.meter, result); !s.ok()) {
    return s;
  }
  // No other rank needs the store once rank 0 has everything.
  if (run.is_process && !IsSilent(run.options)) {
    RemoveJobFolder(*run.options.place);
  }
  return result;
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
  const OptimizerOptions optimizer_options = OptimizerOptionsOf(options);

  // Ranks are the parallelism, and the number of threads changes the bits of a
  // product. Set here, before any task computes.
  UseOneThread();
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  // Outlives the plugin, whose tasks report to it.
  StepMeter meter(*runtime, options.ranks, options.steps,
                  !options.trace_path.empty());
  const absl::StatusOr<std::unique_ptr<Store>> store =
      OpenStoreOf(options, optimizer_options.timeout, *runtime);
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::unique_ptr<Plugin>> plugin = Plugin::Open(
      PluginSearchFromEnvironment(options.plugin, options.plugin_options),
      *runtime);
  if (!plugin.ok()) return plugin.status();
  if (absl::Status s = CheckPretendedHosts(options, **plugin); !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckJoinsProcesses(options, **plugin); !s.ok()) {
    return s;
  }
  absl::StatusOr<std::vector<std::string>> host_ids =
      FindHostIds(options, optimizer_options.timeout, *runtime, **store);
  if (!host_ids.ok()) return host_ids.status();
  // Each rank makes it too; here it is refused, and described, before any
  // starts.
  const absl::StatusOr<Plan> plan = Plan::Create(
      *specs, *mesh, HostMap::FromHostIds(*host_ids), optimizer_options);
  if (!plan.ok()) return plan.status();
  TrainRun run{
      .options = options,
      .mesh = *mesh,
      .data = *data,
      .specs = *std::move(specs),
      .initial_values = GptInitialValues(options.shape, options.seed),
      .host_ids = *std::move(host_ids),
      .optimizer_options = optimizer_options,
      .runtime = *runtime,
      .plugin = **plugin,
      .store = **store,
      .meter = meter,
      .show = show,
      .is_process = options.place.has_value(),
      .results = std::vector<RankResult>(static_cast<size_t>(options.ranks))};
  if (IsSilent(options)) run.show = [](const std::string&) {};
  return RunAndReport(run, *plan);
}

}  // namespace muonshard
