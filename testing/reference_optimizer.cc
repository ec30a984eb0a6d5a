#include "testing/reference_optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muonshard::testing {
namespace {

using Values = std::vector<double>;

size_t Index(int64_t value) { return static_cast<size_t>(value); }

// x y, with x [rows, inner] and y [inner, cols].
Values Product(const Values& x, const Values& y, int64_t rows, int64_t inner,
               int64_t cols) {
  Values result(Index(rows * cols), 0.0);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < inner; ++k) {
      const double factor = x[Index(i * inner + k)];
      for (int64_t j = 0; j < cols; ++j) {
        result[Index(i * cols + j)] += factor * y[Index(k * cols + j)];
      }
    }
  }
  return result;
}

Values Transposed(const Values& x, int64_t rows, int64_t cols) {
  Values result(x.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      result[Index(j * rows + i)] = x[Index(i * cols + j)];
    }
  }
  return result;
}

// The gradient of what belongs to no block is none.
void ClearPadding(const ParameterSpec& spec, Values& gradient) {
  if (spec.blocks.padding == 0 || gradient.empty()) return;
  const int64_t cols = spec.shape[spec.shape.size() - 1];
  const int64_t rows = spec.shape[spec.shape.size() - 2];
  const bool of_rows = spec.blocks.dimension == 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const int64_t col = static_cast<int64_t>(i) % cols;
    const int64_t row = static_cast<int64_t>(i) / cols % rows;
    if (of_rows ? row >= rows - spec.blocks.padding
                : col >= cols - spec.blocks.padding) {
      gradient[i] = 0;
    }
  }
}

double SumOfSquares(const Values& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return sum;
}

// The sum over ranks and micro-batches, divided; empty if there is none.
Values Average(const ReferenceGradients& gradients, double divisor) {
  Values sum;
  for (const auto& rank : gradients) {
    for (const Values& micro_batch : rank) {
      if (sum.empty()) sum.resize(micro_batch.size(), 0.0);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += micro_batch[i];
    }
  }
  for (double& value : sum) value /= divisor;
  return sum;
}

// The learning rate of one parameter in one step.
double Rate(const ParameterSpec& spec, const OptimizerOptions& options,
            const StepOptions& step) {
  double rate =
      spec.rule == Rule::kMuon
          ? step.muon_learning_rate.value_or(options.muon.learning_rate)
          : step.adamw_learning_rate.value_or(options.adamw.learning_rate);
  const auto factor = step.schedule_factors.find(spec.schedule);
  if (factor != step.schedule_factors.end()) rate *= factor->second;
  return rate * spec.learning_rate_scale;
}

double Scale(const MuonOptions& muon, int64_t fan_out, int64_t fan_in) {
  const double ratio =
      static_cast<double>(fan_out) / static_cast<double>(fan_in);
  const double larger = static_cast<double>(std::max(fan_out, fan_in));
  if (muon.scale == MuonScale::kSpectral) {
    return std::max(1.0, std::sqrt(ratio));
  }
  if (muon.scale == MuonScale::kMatchAdamWRms) {
    return muon.rms_factor * std::sqrt(larger);
  }
  if (muon.scale == MuonScale::kFanRatio) return std::sqrt(ratio);
  return 1;
}

// Calls `visit(row, col, rows, cols)` for each block of the matrix `cols` wide
// in all, whose first row in the stack of all of a bank's matrices is `row`.
template <typename Visit>
void ForEachBlock(const ParameterSpec& spec, Visit visit) {
  const int64_t cols = spec.shape[spec.shape.size() - 1];
  const int64_t rows = spec.shape[spec.shape.size() - 2];
  const int64_t bank = spec.shape.size() == 3 ? spec.shape[0] : 1;
  for (int64_t matrix = 0; matrix < bank; ++matrix) {
    int64_t row = matrix * rows;
    int64_t col = 0;
    std::vector<int64_t> sizes = spec.blocks.sizes;
    if (sizes.empty()) {
      sizes = {(spec.blocks.dimension == 0 ? rows : cols) -
               spec.blocks.padding};
    }
    for (const int64_t size : sizes) {
      if (spec.blocks.dimension == 0) {
        visit(row, col, size, cols);
        row += size;
      } else {
        visit(row, col, rows, size);
        col += size;
      }
    }
  }
}

// Row i of `x` by 0.85 (sum_j |x x^T|_ij)^(-1/2); rows of next to nothing by
// what their floor allows.
void ScaleByAol(int64_t rows, int64_t cols, double relative_epsilon,
                Values& x) {
  const Values gram = Product(x, Transposed(x, rows, cols), rows, cols, rows);
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < rows; ++j)
      sum += std::abs(gram[Index(i * rows + j)]);
    const double size =
        std::max({std::sqrt(sum), relative_epsilon, std::pow(0.5, 60)});
    for (int64_t j = 0; j < cols; ++j) x[Index(i * cols + j)] *= 0.85 / size;
  }
}

// NorMuon: divides each neuron of `block`, a row or a column of it, by the root
// of the running mean of its squares, then gives the block its norm back.
// `moments` are those of the block's neurons.
void NormalizeNeurons(const MuonOptions& muon, int64_t rows, int64_t cols,
                      int32_t fan_out_dimension, double* moments,
                      Values& block) {
  const bool by_row = fan_out_dimension == 0;
  const double before = std::sqrt(SumOfSquares(block));
  Values squares(Index(by_row ? rows : cols), 0.0);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      squares[Index(by_row ? i : j)] += std::pow(block[Index(i * cols + j)], 2);
    }
  }
  const double weights = static_cast<double>(by_row ? cols : rows);
  for (size_t n = 0; n < squares.size(); ++n) {
    moments[n] += (1 - muon.row_beta2) * (squares[n] / weights - moments[n]);
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      block[Index(i * cols + j)] /=
          std::sqrt(moments[by_row ? i : j]) + muon.epsilon;
    }
  }
  const double after = std::sqrt(SumOfSquares(block));
  for (double& value : block) value *= after == 0 ? 0 : before / after;
}

}  // namespace

Values ReferenceNewtonSchulz(Values x, int64_t rows, int64_t cols,
                             const MuonOptions& options) {
  // The shorter side first, so that all is said once.
  if (rows > cols) {
    return Transposed(
        ReferenceNewtonSchulz(Transposed(x, rows, cols), cols, rows, options),
        cols, rows);
  }
  const double norm = std::max(std::sqrt(SumOfSquares(x)), options.epsilon);
  for (double& value : x) value /= norm;
  if (PreScalingOf(options) == PreScaling::kAol) {
    ScaleByAol(rows, cols, options.epsilon / norm, x);
  }
  for (const auto& [a, b, c] : StepCoefficients(options)) {
    const Values gram = Product(x, Transposed(x, rows, cols), rows, cols, rows);
    const Values gram_squared = Product(gram, gram, rows, rows, rows);
    Values polynomial(gram.size());
    for (size_t i = 0; i < gram.size(); ++i) {
      polynomial[i] = b * gram[i] + c * gram_squared[i];
    }
    const Values correction = Product(polynomial, x, rows, rows, cols);
    for (size_t i = 0; i < x.size(); ++i) x[i] = a * x[i] + correction[i];
  }
  return x;
}

double RelativeDifference(const Values& a, const Values& b) {
  Values difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  const double size = SumOfSquares(b);
  return size == 0 ? std::sqrt(SumOfSquares(difference))
                   : std::sqrt(SumOfSquares(difference) / size);
}

ReferenceOptimizer::ReferenceOptimizer(std::vector<ParameterSpec> specs,
                                       OptimizerOptions options,
                                       std::vector<int64_t> divisors,
                                       std::vector<Values> parameters)
    : specs_(std::move(specs)),
      options_(std::move(options)),
      divisors_(std::move(divisors)) {
  for (Values& values : parameters) {
    const size_t count = values.size();
    parameters_.push_back({.values = std::move(values),
                           .first = Values(count, 0.0),
                           .second = Values(count, 0.0),
                           .steps = 0});
  }
}

absl::StatusOr<ReferenceOutcome> ReferenceOptimizer::Step(
    const std::vector<ReferenceGradients>& gradients,
    const StepOptions& options) {
  std::vector<Values> averages;
  double squares = 0;
  for (size_t i = 0; i < specs_.size(); ++i) {
    averages.push_back(Average(
        gradients[i], static_cast<double>(divisors_[i]) * options.loss_scale));
    ClearPadding(specs_[i], averages[i]);
    if (averages[i].empty()) {
      if (specs_[i].absent_gradient == AbsentGradient::kError) {
        return absl::FailedPreconditionError(absl::StrCat(
            "parameter \"", specs_[i].name, "\" has no gradient on any rank"));
      }
      if (specs_[i].absent_gradient == AbsentGradient::kZeros) {
        averages[i].assign(parameters_[i].values.size(), 0.0);
      }
    }
    squares += SumOfSquares(averages[i]);
  }
  if (!std::isfinite(squares)) return ReferenceOutcome{};

  const double norm = std::sqrt(squares);
  const double clip = options.clip_norm > 0
                          ? std::min(1.0, options.clip_norm / (norm + 1e-6))
                          : 1.0;
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (averages[i].empty()) continue;
    for (double& value : averages[i]) value *= clip;
    ++parameters_[i].steps;
    const double rate = Rate(specs_[i], options_, options);
    if (specs_[i].rule == Rule::kMuon) {
      UpdateMuon(specs_[i], rate, averages[i], parameters_[i]);
    } else {
      UpdateAdamW(specs_[i], rate, averages[i], parameters_[i]);
    }
  }
  return ReferenceOutcome{.updated = true, .gradient_norm = norm};
}

void ReferenceOptimizer::UpdateMuon(const ParameterSpec& spec, double rate,
                                    const Values& gradient,
                                    Parameter& parameter) {
  const MuonOptions& muon = options_.muon;
  const double decay = spec.weight_decay ? muon.weight_decay : 0;
  Values direction(gradient.size());
  for (size_t i = 0; i < gradient.size(); ++i) {
    double& momentum = parameter.first[i];
    momentum += (1 - muon.momentum) * (gradient[i] - momentum);
    direction[i] = muon.nesterov
                       ? gradient[i] + muon.momentum * (momentum - gradient[i])
                       : momentum;
  }
  const int64_t stride = spec.shape.back();
  double* moments = parameter.second.data();
  ForEachBlock(spec, [&](int64_t row, int64_t col, int64_t rows, int64_t cols) {
    Values block(Index(rows * cols));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        block[Index(i * cols + j)] =
            direction[Index((row + i) * stride + col + j)];
      }
    }
    block = ReferenceNewtonSchulz(std::move(block), rows, cols, muon);
    const bool fan_out_is_rows = spec.fan_out_dimension == 0;
    if (muon.row_normalization) {
      NormalizeNeurons(muon, rows, cols, spec.fan_out_dimension, moments,
                       block);
      moments += fan_out_is_rows ? rows : cols;
    }
    const double scale =
        fan_out_is_rows ? Scale(muon, rows, cols) : Scale(muon, cols, rows);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        double& weight = parameter.values[Index((row + i) * stride + col + j)];
        const double step = rate * scale * block[Index(i * cols + j)];
        const bool against = weight != 0 && step != 0 &&
                             std::signbit(weight) != std::signbit(step);
        if (muon.weight_decay_kind == WeightDecay::kDecoupled || !against) {
          weight -= rate * decay * weight;
        }
        weight -= step;
      }
    }
  });
}

void ReferenceOptimizer::UpdateAdamW(const ParameterSpec& spec, double rate,
                                     const Values& gradient,
                                     Parameter& parameter) {
  const AdamWOptions& adamw = options_.adamw;
  const double decay = spec.weight_decay ? adamw.weight_decay : 0;
  const double step = static_cast<double>(parameter.steps);
  for (size_t i = 0; i < gradient.size(); ++i) {
    double& first = parameter.first[i];
    double& second = parameter.second[i];
    first += (1 - adamw.beta1) * (gradient[i] - first);
    second += (1 - adamw.beta2) * (gradient[i] * gradient[i] - second);
    const double first_unbiased = first / (1 - std::pow(adamw.beta1, step));
    const double second_unbiased = second / (1 - std::pow(adamw.beta2, step));
    double& weight = parameter.values[i];
    weight -= rate * decay * weight;
    weight -=
        rate * first_unbiased / (std::sqrt(second_unbiased) + adamw.epsilon);
  }
}

}  // namespace muonshard::testing
