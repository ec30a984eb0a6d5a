// Time of one Newton-Schulz iteration of five steps on the calling thread.
//
// Axes       rows x cols: the matrices of a GPT of width 128, then larger ones
// Reports    flops = NewtonSchulzFlops / time: those of the three products of a
//            step, whatever the library really computes
// Not shown  momentum and the update of weights; several ranks at once

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "optimizer/compute/newton_schulz.h"
#include "optimizer/options.h"

namespace muonshard {
namespace {

void BM_NewtonSchulz(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const int64_t cols = state.range(1);
  const MuonOptions options;
  std::vector<float> x(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  }
  std::vector<float> out(x.size());
  std::vector<float> workspace(
      static_cast<size_t>(NewtonSchulzWorkspaceCount(rows, cols, options)));
  for ([[maybe_unused]] const auto iteration : state) {
    NewtonSchulz(x, rows, cols, options, workspace, out);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  const int64_t flops = NewtonSchulzFlops(rows, cols, options);
  state.counters["flops"] =
      benchmark::Counter(static_cast<double>(flops),
                         benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(BM_NewtonSchulz)
    ->ArgNames({"rows", "cols"})
    ->Args({128, 128})
    ->Args({512, 128})
    ->Args({128, 512})
    ->Args({256, 1024})
    ->Args({768, 768})
    ->Args({1024, 1024})
    ->Args({1024, 4096})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace muonshard
