#include "tools/trainer/train_flags.h"

#include <array>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/data_type.h"
#include "optimizer/options.h"
#include "tools/trainer/flags.h"
#include "tools/trainer/model_placement.h"
#include "tools/trainer/output_files.h"
#include "tools/trainer/plan_flags.h"
#include "topology/mesh.h"

namespace muonshard {
namespace {

constexpr int32_t kRanksMax = 64;

constexpr absl::string_view kMeshHelp =
    "\nAxes of --mesh, by name; all carry different data:\n"
    "  dp     parameters and their state are copied over it\n"
    "  ep     with --experts, the experts are spread over it\n"
    "  other  the state of parameters is cut over it; so it is over ep, but\n"
    "         for the experts'\n";

// Indices into the values of flags that are choices.
struct Choices {
  int32_t rule = 0;
  int32_t hierarchy = 2;
  int32_t gather = 1;
  int32_t precision = 0;
};

void Apply(const Choices& choices, TrainOptions& options) {
  constexpr std::array kRules = {Rule::kMuon, Rule::kAdamW};
  constexpr std::array kHierarchies = {Hierarchy::kOn, Hierarchy::kOff,
                                       Hierarchy::kAuto};
  constexpr std::array kGathers = {GatherMode::kEager, GatherMode::kLazy};
  constexpr std::array kPrecisions = {DataType::kF32, DataType::kBF16,
                                      DataType::kF16};
  options.rule = kRules[static_cast<size_t>(choices.rule)];
  options.hierarchy = kHierarchies[static_cast<size_t>(choices.hierarchy)];
  options.gather = kGathers[static_cast<size_t>(choices.gather)];
  options.precision = kPrecisions[static_cast<size_t>(choices.precision)];
}

void AddUpdateFlags(TrainOptions& options, Choices& choices, FlagTable& table) {
  table.AddChoice("rule", "update rule of the hidden matrices",
                  {"muon", "adamw"}, &choices.rule);
  table.AddNumber("lr", "learning rate of Muon", 1e-9, 10,
                  &options.muon_learning_rate);
  table.AddNumber("adamw-lr", "learning rate of AdamW", 1e-9, 10,
                  &options.adamw_learning_rate);
  table.AddNumber("clip", "largest norm of all gradients; 0: no clip", 0, 1e9,
                  &options.clip_norm);
  table.AddChoice("precision",
                  "of parameters and gradients; masters and products are fp32",
                  {"fp32", "bf16", "fp16"}, &choices.precision);
  table.AddSwitch("scaler",
                  "scale losses dynamically; fp16 alone loses small gradients",
                  &options.scaler);
}

void AddRunFlags(TrainOptions& options, Choices& choices, FlagTable& table) {
  table.AddText("plugin", "NAME|PATH",
                "plugin that moves the data; else $MUONSHARD_PLUGIN, else "
                "loopback",
                &options.plugin);
  table.AddText("plugin-options", "JSON",
                "for the plugin; else $MUONSHARD_PLUGIN_OPTIONS",
                &options.plugin_options);
  table.AddInteger(
      "ranks", "ranks, each a thread; under a launcher, as many as it started",
      1, kRanksMax, &options.ranks);
  table.AddText("mesh", "AXES", "axes of the ranks, e.g. sharding=4; see below",
                &options.mesh);
  table.AddInteger("lanes-per-node",
                   "ranks of each host that loopback pretends; 0: one host", 0,
                   kRanksMax, &options.lanes_per_node);
  table.AddInteger("steps", "optimizer steps", int64_t{1}, int64_t{1000000},
                   &options.steps);
  table.AddInteger("accumulate", "micro-batches in one step", 1, 64,
                   &options.micro_batches);
  AddBucketFlag(table, &options.bucket_mib);
  table.AddSwitch("overlap", "reduce during backward", &options.overlap);
  table.AddChoice("gather", "new parameters: at once, or during the forward",
                  {"eager", "lazy"}, &choices.gather);
  table.AddChoice("hierarchical",
                  "reduce and gather within hosts, then between them",
                  {"on", "off", "auto"}, &choices.hierarchy);
  AddUpdateFlags(options, choices, table);
  table.AddSeed("seed", "of the first weights and of the batches",
                &options.seed);
  table.AddSwitch("deterministic", "refuse a plugin without repeatable results",
                  &options.deterministic);
  table.AddSwitch("verify", "compare with an unsharded optimizer at the end",
                  &options.verify);
}

void AddOutputAndModelFlags(TrainOptions& options, FlagTable& table) {
  table.AddText("report", "FILE.json", "write measurements",
                &options.report_path);
  table.AddText("trace", "FILE.json", "write a trace for ui.perfetto.dev",
                &options.trace_path);
  table.AddText("plot", "FILE.svg", "draw the loss", &options.plot_path);
  table.AddText("data", "FILE", "text to learn; else Debian's fortunes",
                &options.data_path);
  table.AddInteger("interval", "steps between lines of progress", int64_t{1},
                   int64_t{1000000}, &options.interval);
  table.AddInteger("width", "features per position", int64_t{1}, int64_t{4096},
                   &options.shape.width);
  table.AddInteger("layers", "layers of the model", int64_t{1}, int64_t{64},
                   &options.shape.layers);
  table.AddInteger("heads", "attention heads", int64_t{1}, int64_t{64},
                   &options.shape.heads);
  table.AddInteger("experts", "MLPs of a layer, one a position; 0: dense",
                   int64_t{0}, int64_t{256}, &options.shape.experts);
  table.AddInteger("context", "bytes the model looks back", int64_t{1},
                   int64_t{4096}, &options.shape.context);
  table.AddInteger("sequences", "sequences of a rank in a micro-batch",
                   int64_t{1}, int64_t{4096}, &options.sequences);
}

absl::Status CheckPaths(const TrainOptions& options) {
  const std::array<NamedPath, 4> paths = {{{"--data", options.data_path},
                                           {"--report", options.report_path},
                                           {"--trace", options.trace_path},
                                           {"--plot", options.plot_path}}};
  return CheckDistinct(paths);
}

absl::Status CheckModel(const TrainOptions& options) {
  if (absl::Status s = Validate(options.shape); !s.ok()) return s;
  const absl::StatusOr<Mesh> mesh = MeshOfFlag(options.mesh);
  if (!mesh.ok()) return mesh.status();
  if (absl::Status s = CheckExperts(options.shape, *mesh); !s.ok()) {
    return absl::Status(s.code(), absl::StrCat("--", s.message()));
  }
  return absl::OkStatus();
}

// Ranks are as many as the launcher says.
absl::Status SettleRanks(bool ranks_given, TrainOptions& options) {
  if (!options.place.has_value()) return absl::OkStatus();
  const JobPlace& place = *options.place;
  if (ranks_given && options.ranks != place.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ranks: want ", place.size, ", as many as ",
                     place.launcher, " has started, got ", options.ranks));
  }
  options.ranks = place.size;
  return absl::OkStatus();
}

// Fills in what follows from the other: ranks from the mesh, or the mesh from
// the ranks.
absl::Status SettleMesh(bool ranks_given, TrainOptions& options) {
  if (options.mesh.empty()) {
    options.mesh = absl::StrCat("sharding=", options.ranks);
    return absl::OkStatus();
  }
  const absl::StatusOr<Mesh> mesh = MeshOfFlag(options.mesh);
  if (!mesh.ok()) return mesh.status();
  if (!ranks_given) options.ranks = mesh->size();
  if (mesh->size() == options.ranks && options.ranks <= kRanksMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--mesh: want a product equal to --ranks=", options.ranks,
                   " and at most ", kRanksMax, ", got \"", options.mesh,
                   "\" of ", mesh->size(), " ranks"));
}

}  // namespace

absl::StatusOr<TrainCommand> ParseTrainFlags(
    std::span<const absl::string_view> arguments,
    std::optional<JobPlace> place) {
  TrainCommand command;
  command.options.place = std::move(place);
  Choices choices;
  FlagTable table;
  AddRunFlags(command.options, choices, table);
  AddOutputAndModelFlags(command.options, table);
  if (absl::Status s = table.Parse(arguments); !s.ok()) return s;
  command.help_wanted = table.help_wanted();
  Apply(choices, command.options);
  const bool ranks_given = table.given("ranks");
  if (absl::Status s = SettleRanks(ranks_given, command.options); !s.ok()) {
    return s;
  }
  if (absl::Status s = SettleMesh(
          ranks_given || command.options.place.has_value(), command.options);
      !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckModel(command.options); !s.ok()) return s;
  if (absl::Status s = CheckPaths(command.options); !s.ok()) return s;
  return command;
}

std::string TrainHelp() {
  TrainOptions options;
  Choices choices;
  FlagTable table;
  AddRunFlags(options, choices, table);
  AddOutputAndModelFlags(options, table);
  return absl::StrCat(
      "Trains a byte-level GPT with the sharded Muon optimizer, one rank per "
      "thread, or one\nper process under muonshard launch, mpirun, mpiexec, "
      "srun or torchrun; then rank 0\nreports, and its trace shows "
      "itself.\n\nFlags [default]:\n",
      table.Help(), kMeshHelp);
}

}  // namespace muonshard
