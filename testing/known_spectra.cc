#include "testing/known_spectra.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <random>

namespace muonshard::testing {
namespace {

size_t Index(int64_t value) { return static_cast<size_t>(value); }

// `count` orthonormal vectors of `length` >= `count` elements. Gram-Schmidt,
// twice, so that they are orthogonal to the last bits.
std::vector<double> OrthonormalVectors(int64_t count, int64_t length,
                                       uint64_t seed) {
  std::vector<double> vectors = RandomValues(count * length, seed);
  const auto vector = [&](int64_t i) { return &vectors[Index(i * length)]; };
  const auto dot = [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) sum += vector(i)[k] * vector(j)[k];
    return sum;
  };
  for (int64_t i = 0; i < count; ++i) {
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < i; ++j) {
        const double factor = dot(i, j);
        for (int64_t k = 0; k < length; ++k) {
          vector(i)[k] -= factor * vector(j)[k];
        }
      }
      const double norm = std::sqrt(dot(i, i));
      for (int64_t k = 0; k < length; ++k) vector(i)[k] /= norm;
    }
  }
  return vectors;
}

// (-1)^popcount(k & i) / sqrt(count): one vector for each k.
std::vector<double> WalshVectors(int64_t count) {
  const double size = 1 / std::sqrt(static_cast<double>(count));
  std::vector<double> vectors;
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t i = 0; i < count; ++i) {
      const bool odd = std::popcount(static_cast<uint64_t>(k & i)) % 2 == 1;
      vectors.push_back(odd ? -size : size);
    }
  }
  return vectors;
}

// The place of value i of `count` on a line from 0 to 1.
double Place(int64_t i, int64_t count) {
  if (count == 1) return 0;
  return static_cast<double>(i) / static_cast<double>(count - 1);
}

}  // namespace

std::vector<double> RandomValues(int64_t count, uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<double> values(Index(count));
  for (double& value : values) {
    value = std::ldexp(static_cast<double>(bits() >> 11), -52) - 1.0;
  }
  return values;
}

SingularVectors::SingularVectors(int64_t rows, int64_t cols, uint64_t seed)
    : rows_(rows),
      cols_(cols),
      left_(OrthonormalVectors(std::min(rows, cols), rows, 2 * seed)),
      right_(OrthonormalVectors(std::min(rows, cols), cols, 2 * seed + 1)) {}

SingularVectors SingularVectors::Walsh(int64_t rows, int64_t cols,
                                       uint64_t seed) {
  SingularVectors vectors(rows, cols, seed);
  (rows <= cols ? vectors.left_ : vectors.right_) =
      WalshVectors(std::min(rows, cols));
  return vectors;
}

std::vector<double> SingularVectors::Compose(
    const std::vector<double>& values) const {
  std::vector<double> matrix(Index(rows_ * cols_), 0.0);
  for (int64_t k = 0; k < std::min(rows_, cols_); ++k) {
    for (int64_t i = 0; i < rows_; ++i) {
      const double factor = values[Index(k)] * left_[Index(k * rows_ + i)];
      for (int64_t j = 0; j < cols_; ++j) {
        matrix[Index(i * cols_ + j)] += factor * right_[Index(k * cols_ + j)];
      }
    }
  }
  return matrix;
}

std::vector<double> LinearSpectrum(int64_t count, double smallest) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(1 + Place(i, count) * (smallest - 1));
  }
  return values;
}

std::vector<double> LogSpectrum(int64_t count, double smallest) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(std::pow(smallest, Place(i, count)));
  }
  return values;
}

std::vector<double> RankSpectrum(int64_t count, int64_t ones) {
  std::vector<double> values(Index(count), 0.0);
  std::fill_n(values.begin(), ones, 1.0);
  return values;
}

std::vector<double> OutlierSpectrum(int64_t count, double rest) {
  std::vector<double> values(Index(count), rest);
  values[0] = 1;
  return values;
}

double SpectralNormBound(const std::vector<double>& x, int64_t rows,
                         int64_t cols) {
  // The N-th root of the trace of the N-th power of the smaller Gram matrix,
  // whose eigenvalues are squares of singular values. Powers are divided by
  // their trace, whose logarithm is kept.
  constexpr int kSquarings = 8;
  const int64_t side = std::min(rows, cols);
  const auto product = [side](const auto& left, const auto& right,
                              int64_t inner) {
    std::vector<double> result(Index(side * side), 0.0);
    for (int64_t i = 0; i < side; ++i) {
      for (int64_t k = 0; k < inner; ++k) {
        const double factor = left(i, k);
        for (int64_t j = 0; j < side; ++j) {
          result[Index(i * side + j)] += factor * right(k, j);
        }
      }
    }
    return result;
  };
  const auto element = [&](int64_t i, int64_t k) {
    return rows <= cols ? x[Index(i * cols + k)] : x[Index(k * cols + i)];
  };
  std::vector<double> power = product(
      element, [&](int64_t k, int64_t j) { return element(j, k); },
      std::max(rows, cols));
  double log_size = 0;
  for (int squaring = 0;; ++squaring) {
    double trace = 0;
    for (int64_t i = 0; i < side; ++i) trace += power[Index(i * side + i)];
    if (trace == 0) return 0;
    log_size += std::log(trace);
    if (squaring == kSquarings) break;
    for (double& value : power) value /= trace;
    const auto at = [&](int64_t i, int64_t j) {
      return power[Index(i * side + j)];
    };
    power = product(at, at, side);
    log_size *= 2;
  }
  return std::exp(std::ldexp(log_size, -kSquarings - 1));
}

}  // namespace muonshard::testing
