// Our side: one rank of a group over the UCX plugin, through the public
// interface, with a deadline and a fingerprint for every call, as the sharded
// optimizer makes its calls.
//
// Ranks are processes that somebody else starts, with --rank, --size and
// --store; they meet in a folder. $MUONSHARD_PLUGIN names another plugin.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "benchmarks/peers/timing.h"
#include "collectives/buffer.h"
#include "collectives/collective.h"
#include "collectives/collective_memory.h"
#include "collectives/operation.h"
#include "collectives/plugin.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/store.h"
#include "collectives/work.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

// A hang ends as an error.
constexpr absl::Duration kPatience = absl::Seconds(60);

CallOptions OptionsOf(const Collective& group, TimingOperation operation) {
  return {.label = "gradients",
          .deadline = group.runtime().Now() + kPatience,
          .fingerprint = 1 + static_cast<uint64_t>(operation)};
}

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "muonshard: %s\n", status.ToString().c_str());
  return 1;
}

absl::StatusOr<Work> Start(Collective& group, TimingOperation operation,
                           std::span<const float> in, std::span<float> out) {
  const CallOptions options = OptionsOf(group, operation);
  const auto size = static_cast<size_t>(group.size());
  if (operation == kTimingAllReduce) {
    return group.AllReduce(ConstBuffer::Of(in), MutableBuffer::Of(out),
                           Reduction::Sum(), options);
  }
  const size_t part = in.size() / size;
  std::vector<int64_t> counts(size, static_cast<int64_t>(part));
  if (operation == kTimingReduceScatter) {
    return group.ReduceScatterV(ConstBuffer::Of(in),
                                MutableBuffer::Of(out.first(part)),
                                std::move(counts), Reduction::Sum(), options);
  }
  return group.AllGatherV(ConstBuffer::Of(in.first(part)),
                          MutableBuffer::Of(out), std::move(counts), options);
}

struct Context {
  Collective& group;
  std::vector<std::unique_ptr<CollectiveMemory>> memories = {};
};

Collective& GroupOf(void* context) {
  return static_cast<Context*>(context)->group;
}

int Call(void* context, TimingOperation operation, const float* in, float* out,
         size_t count) {
  Collective& group = GroupOf(context);
  return Report(AwaitEnd(
      Start(group, operation, std::span(in, count), std::span(out, count))));
}

int Barrier(void* context) {
  Collective& group = GroupOf(context);
  return Report(
      AwaitEnd(group.Barrier({.deadline = group.runtime().Now() + kPatience})));
}

int Largest(void* context, double* value) {
  Collective& group = GroupOf(context);
  const auto values = std::span(value, 1);
  return Report(AwaitEnd(group.AllReduce(
      ConstBuffer::Of<double>(values), MutableBuffer::Of(values),
      Reduction::Max(), {.deadline = group.runtime().Now() + kPatience})));
}

// All ranks allocate as many floats, in the same order.
float* Allocate(void* context, size_t count) {
  auto& [group, memories] = *static_cast<Context*>(context);
  absl::StatusOr<std::unique_ptr<CollectiveMemory>> memory =
      group.NewMemory(static_cast<int64_t>(count * sizeof(float)),
                      group.runtime().Now() + kPatience);
  if (Report(memory.status()) != 0) return nullptr;
  memories.push_back(*std::move(memory));
  return reinterpret_cast<float*>(memories.back()->bytes().data());
}

absl::Status Run(const TimingOptions& options) {
  const absl::string_view memory = options.memory;
  if (memory != "plain" && memory != "window") {
    return absl::InvalidArgumentError(
        absl::StrCat("--memory: want plain or window, got \"", memory, "\""));
  }
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  absl::StatusOr<std::unique_ptr<Store>> store =
      NewFileStore(*runtime, options.store);
  if (!store.ok()) return store.status();
  const char* named = std::getenv("MUONSHARD_PLUGIN");
  absl::StatusOr<std::unique_ptr<Plugin>> plugin = Plugin::Open(
      PluginSearchFromEnvironment(named == nullptr ? "ucx" : named, ""),
      *runtime);
  if (!plugin.ok()) return plugin.status();
  absl::StatusOr<std::unique_ptr<Collective>> group =
      (*plugin)->NewGroup({.rank = Rank{options.rank},
                           .size = options.size,
                           .deadline = runtime->Now() + kPatience,
                           .store = store->get()});
  if (!group.ok()) return group.status();
  Context context = {**group};
  const TimingStack stack = {
      .name = "muonshard",
      .rank = options.rank,
      .size = options.size,
      .context = &context,
      .allocate = memory == "window" ? Allocate : nullptr,
      .call = Call,
      .barrier = Barrier,
      .largest = Largest};
  if (TimingRun(&stack, &options)) {
    return absl::InternalError("the run ended early");
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace muonshard

int main(int argc, char** argv) {
  TimingOptions options;
  if (TimingReadFlags(argc, argv, &options)) return 1;
  return muonshard::Report(muonshard::Run(options));
}
