#include "optimizer/compute/newton_schulz.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "optimizer/compute/matrix_products.h"
#include "optimizer/compute/newton_schulz_steps.h"
#include "optimizer/compute/pre_scaling.h"

namespace muonshard {
namespace {

constexpr size_t kAlignmentBytes = 64;

int64_t SquareCount(const MuonOptions& options) {
  return options.iteration == NewtonSchulzIteration::kGram ? kGramSquares
                                                           : kStandardSquares;
}

// Elements of T from one aligned matrix to the next.
template <typename T>
int64_t RoundUp(int64_t count) {
  constexpr int64_t kCount = int64_t{kAlignmentBytes / sizeof(T)};
  return (count + kCount - 1) / kCount * kCount;
}

template <typename T>
int64_t WorkspaceFloats(int64_t rows, int64_t cols,
                        const MuonOptions& options) {
  const int64_t m = std::min(rows, cols);
  const int64_t elements =
      2 * RoundUp<T>(rows * cols) + SquareCount(options) * RoundUp<T>(m * m);
  return elements * int64_t{sizeof(T) / sizeof(float)} + RoundUp<float>(1);
}

// The matrices of an iteration, each at its aligned place in `workspace`.
template <typename T>
IterationBuffers<T> LayOut(int64_t rows, int64_t cols,
                           const MuonOptions& options,
                           std::span<float> workspace) {
  IterationBuffers<T> buffers = {.m = std::min(rows, cols),
                                 .n = std::max(rows, cols)};
  void* place = workspace.data();
  size_t bytes = workspace.size_bytes();
  std::align(kAlignmentBytes, 1, place, bytes);
  T* next_matrix = static_cast<T*>(place);
  const auto take = [&next_matrix](int64_t count) {
    T* const matrix = next_matrix;
    std::uninitialized_default_construct_n(matrix, count);
    next_matrix += RoundUp<T>(count);
    return matrix;
  };
  buffers.current = take(buffers.m * buffers.n);
  buffers.next = take(buffers.m * buffers.n);
  for (int64_t i = 0; i < SquareCount(options); ++i) {
    buffers.squares[i] = take(buffers.m * buffers.m);
  }
  return buffers;
}

template <typename T, typename Out>
void CopyResult(const T* result, int64_t rows, int64_t cols,
                std::span<Out> out) {
  if (rows <= cols) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<Out>(result[i]);
    return;
  }
  constexpr int64_t kSide = 32;
  for (int64_t col = 0; col < cols; col += kSide) {
    const int64_t col_end = std::min(cols, col + kSide);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t j = col; j < col_end; ++j) {
        out[static_cast<size_t>(row * cols + j)] =
            static_cast<Out>(result[j * rows + row]);
      }
    }
  }
}

template <typename T, typename InOut>
void Orthogonalize(std::span<const InOut> x, int64_t rows, int64_t cols,
                   const MuonOptions& options, std::span<float> workspace,
                   std::span<InOut> out) {
  const IterationBuffers<T> buffers = LayOut<T>(rows, cols, options, workspace);
  const double relative_epsilon =
      DivideByNorm(x, rows, cols, options.epsilon, buffers.current);
  if (PreScalingOf(options) == PreScaling::kAol) {
    ScaleRowsByAol(buffers.m, buffers.n, relative_epsilon, buffers.squares[0],
                   buffers.current);
  }
  const DataType dtype = options.newton_schulz_dtype;
  RoundTo(dtype, std::span<T>(buffers.current, x.size()));
  const std::vector<NewtonSchulzCoefficients> steps = StepCoefficients(options);
  const T* const result =
      options.iteration == NewtonSchulzIteration::kGram
          ? RunGram<T>(steps, options.gram_restart_interval, dtype, buffers)
          : RunStandard<T>(steps, dtype, buffers);
  CopyResult(result, rows, cols, out);
}

template <typename InOut>
void Run(std::span<const InOut> x, int64_t rows, int64_t cols,
         const MuonOptions& options, std::span<float> workspace,
         std::span<InOut> out) {
  if (rows <= 0 || cols <= 0) return;
  const size_t count = static_cast<size_t>(rows * cols);
  if (options.newton_schulz_dtype == DataType::kF64) {
    Orthogonalize<double>(x.first(count), rows, cols, options, workspace,
                          out.first(count));
  } else {
    Orthogonalize<float>(x.first(count), rows, cols, options, workspace,
                         out.first(count));
  }
}

}  // namespace

int64_t NewtonSchulzWorkspaceCount(int64_t rows, int64_t cols,
                                   const MuonOptions& options) {
  return options.newton_schulz_dtype == DataType::kF64
             ? WorkspaceFloats<double>(rows, cols, options)
             : WorkspaceFloats<float>(rows, cols, options);
}

void NewtonSchulz(std::span<const float> x, int64_t rows, int64_t cols,
                  const MuonOptions& options, std::span<float> workspace,
                  std::span<float> out) {
  Run(x, rows, cols, options, workspace, out);
}

void NewtonSchulz(std::span<const double> x, int64_t rows, int64_t cols,
                  const MuonOptions& options, std::span<float> workspace,
                  std::span<double> out) {
  Run(x, rows, cols, options, workspace, out);
}

}  // namespace muonshard
