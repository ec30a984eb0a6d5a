// Time of one collective call, from the first rank's call to the last rank's
// answer.
//
// Axes       ranks x bytes of the whole buffer (f32): what each rank gives to
//            AllReduce and ReduceScatterV and gets from AllGatherV
// Reports    bytes_per_second = bytes / time ("algorithm bandwidth": what the
//            caller gets, whatever the plugin puts on the wire)
// Set-up     All ranks are posted from one thread, in rank order, and waited
//            for in rank order; segments are as equal as can be
// Not shown  start-up, contention with compute, more than one group, more than
//            one call in flight
//
// The plugin is $MUONSHARD_PLUGIN, else loopback.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/buffer.h"
#include "collectives/collective.h"
#include "collectives/operation.h"
#include "collectives/plugin.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/store.h"
#include "collectives/work.h"
#include "topology/rank.h"

namespace muonshard {
namespace {

// All ranks of one group, in one process. The members are destroyed last to
// first: groups before the plugin, the plugin before the runtime.
class WholeGroup {
 public:
  absl::Status Join(int32_t size) {
    absl::StatusOr<std::unique_ptr<Plugin>> plugin =
        Plugin::Open(PluginSearchFromEnvironment("", ""), *runtime_);
    if (!plugin.ok()) return plugin.status();
    plugin_ = *std::move(plugin);
    ranks_.resize(static_cast<size_t>(size));
    for (const absl::Status& joined :
         RunRanks(*runtime_, size, [this, size](Rank rank) -> absl::Status {
           absl::StatusOr<std::unique_ptr<Collective>> group =
               plugin_->NewGroup(
                   {.rank = rank, .size = size, .store = store_.get()});
           if (!group.ok()) return group.status();
           ranks_[static_cast<size_t>(ToInt(rank))] = *std::move(group);
           return absl::OkStatus();
         })) {
      if (!joined.ok()) return joined;
    }
    return absl::OkStatus();
  }

  std::span<const std::unique_ptr<Collective>> ranks() const { return ranks_; }

 private:
  const std::unique_ptr<Runtime> runtime_ = NewThreadsRuntime();
  const std::unique_ptr<Store> store_ = NewInProcessStore(*runtime_);
  std::unique_ptr<Plugin> plugin_;
  std::vector<std::unique_ptr<Collective>> ranks_;
};

std::vector<int64_t> EvenCounts(int64_t count, int32_t size) {
  std::vector<int64_t> counts(static_cast<size_t>(size), count / size);
  for (int64_t i = 0; i < count % size; ++i) {
    ++counts[static_cast<size_t>(i)];
  }
  return counts;
}

// Posts one rank's call. `out` is as long as `in`; a call that fills less of it
// takes its beginning.
using Call = std::function<absl::StatusOr<Work>(
    Collective& rank, std::span<const float> in, std::span<float> out,
    const std::vector<int64_t>& counts)>;

// Posts the call of every rank and waits for all.
absl::Status CallOnce(const WholeGroup& group, const Call& call,
                      const std::vector<float>& in,
                      std::vector<std::vector<float>>& outs,
                      const std::vector<int64_t>& counts,
                      std::vector<Work>& works) {
  works.clear();
  for (size_t r = 0; r < outs.size(); ++r) {
    absl::StatusOr<Work> work = call(*group.ranks()[r], in, outs[r], counts);
    if (!work.ok()) return work.status();
    works.push_back(*std::move(work));
  }
  for (const Work& work : works) {
    if (absl::Status s = work.Wait(absl::InfiniteFuture()); !s.ok()) return s;
  }
  return absl::OkStatus();
}

void RunCall(benchmark::State& state, const Call& call) {
  const auto size = static_cast<int32_t>(state.range(0));
  const int64_t bytes = state.range(1);
  const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
  const std::vector<float> in(static_cast<size_t>(count), 1);
  std::vector<std::vector<float>> outs(static_cast<size_t>(size), in);
  const std::vector<int64_t> counts = EvenCounts(count, size);
  std::vector<Work> works;

  WholeGroup group;
  if (absl::Status s = group.Join(size); !s.ok()) {
    state.SkipWithError(s.ToString().c_str());
    return;
  }
  for (auto unused : state) {
    if (absl::Status s = CallOnce(group, call, in, outs, counts, works);
        !s.ok()) {
      state.SkipWithError(s.ToString().c_str());
      return;
    }
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

size_t OwnCount(const Collective& rank, const std::vector<int64_t>& counts) {
  return static_cast<size_t>(counts[static_cast<size_t>(ToInt(rank.rank()))]);
}

void BM_AllReduce(benchmark::State& state) {
  RunCall(state, [](Collective& rank, std::span<const float> in,
                    std::span<float> out, const std::vector<int64_t>&) {
    return rank.AllReduce(ConstBuffer::Of(in), MutableBuffer::Of(out),
                          Reduction::Sum());
  });
}

void BM_ReduceScatterV(benchmark::State& state) {
  RunCall(state, [](Collective& rank, std::span<const float> in,
                    std::span<float> out, const std::vector<int64_t>& counts) {
    return rank.ReduceScatterV(
        ConstBuffer::Of(in),
        MutableBuffer::Of(out.first(OwnCount(rank, counts))), counts,
        Reduction::Sum());
  });
}

void BM_AllGatherV(benchmark::State& state) {
  RunCall(state, [](Collective& rank, std::span<const float> in,
                    std::span<float> out, const std::vector<int64_t>& counts) {
    return rank.AllGatherV(ConstBuffer::Of(in.first(OwnCount(rank, counts))),
                           MutableBuffer::Of(out), counts);
  });
}

void RanksByBytes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"ranks", "bytes"})
      ->ArgsProduct({{2, 4, 8}, {1 << 10, 1 << 16, 1 << 20, 1 << 24}})
      ->UseRealTime();
}

BENCHMARK(BM_AllReduce)->Apply(RanksByBytes);
BENCHMARK(BM_ReduceScatterV)->Apply(RanksByBytes);
BENCHMARK(BM_AllGatherV)->Apply(RanksByBytes);

}  // namespace
}  // namespace muonshard
