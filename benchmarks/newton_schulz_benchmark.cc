// Time of one Newton-Schulz iteration on the calling thread.
//
// Axes       rows x cols: the matrices of a GPT of width 128, then larger ones;
//            for Gram, aspect ratios 1 to 8, as its advantage grows with them
//            iteration: standard, and Gram with a restart every two steps and
//            with none
//            type: of products; bf16 and f16 show what rounding costs on a
//            host, which has no products of those types
// Reports    flops = NewtonSchulzFlops / time: those of all products of the
//            variant, whatever the library really computes
// Not shown  momentum and the update of weights; several ranks at once

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/data_type.h"
#include "optimizer/compute/newton_schulz.h"
#include "optimizer/muon_options.h"

namespace muonshard {
namespace {

void Measure(const MuonOptions& options, benchmark::State& state) {
  const int64_t rows = state.range(0);
  const int64_t cols = state.range(1);
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

void BM_NewtonSchulz(benchmark::State& state) { Measure({}, state); }

void BM_GramNewtonSchulz(benchmark::State& state) {
  MuonOptions options;
  options.iteration = NewtonSchulzIteration::kGram;
  options.gram_restart_interval = static_cast<int32_t>(state.range(2));
  Measure(options, state);
}

void BM_NewtonSchulzOfType(benchmark::State& state) {
  MuonOptions options;
  options.newton_schulz_dtype = static_cast<DataType>(state.range(2));
  state.SetLabel(std::string(DataTypeName(options.newton_schulz_dtype)));
  Measure(options, state);
}

BENCHMARK(BM_NewtonSchulz)
    ->ArgNames({"rows", "cols"})
    ->Args({128, 128})
    ->Args({512, 128})
    ->Args({128, 512})
    ->Args({256, 256})
    ->Args({256, 1024})
    ->Args({256, 2048})
    ->Args({768, 768})
    ->Args({1024, 1024})
    ->Args({1024, 4096})
    ->Unit(benchmark::kMicrosecond);

BENCHMARK(BM_GramNewtonSchulz)
    ->ArgNames({"rows", "cols", "restart"})
    ->ArgsProduct({{256}, {256, 1024, 2048}, {2, 5}})
    ->Unit(benchmark::kMicrosecond);

BENCHMARK(BM_NewtonSchulzOfType)
    ->ArgNames({"rows", "cols", "type"})
    ->Args({256, 1024, static_cast<int64_t>(DataType::kF64)})
    ->Args({256, 1024, static_cast<int64_t>(DataType::kBF16)})
    ->Args({256, 1024, static_cast<int64_t>(DataType::kF16)})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace muonshard
