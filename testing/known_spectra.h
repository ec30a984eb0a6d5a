// Matrices made from chosen singular values, for tests of matrix functions.

#ifndef TESTING_KNOWN_SPECTRA_H_
#define TESTING_KNOWN_SPECTRA_H_

#include <cstdint>
#include <vector>

namespace muonshard::testing {

// `count` numbers in [-1, 1), the same for the same seed everywhere.
std::vector<double> RandomValues(int64_t count, uint64_t seed);

// The singular vectors of a matrix [rows, cols], random but the same for the
// same seed.
class SingularVectors {
 public:
  SingularVectors(int64_t rows, int64_t cols, uint64_t seed);

  // With the Walsh functions on the shorter side, min(rows, cols) of them,
  // which is a power of two. Of every matrix X [m, n] that is composed of
  // these, m <= n, the rows of X X^T hold the same numbers, permuted.
  static SingularVectors Walsh(int64_t rows, int64_t cols, uint64_t seed);

  // The matrix with min(rows, cols) given singular values, row-major.
  std::vector<double> Compose(const std::vector<double>& values) const;

 private:
  int64_t rows_;
  int64_t cols_;
  // One vector after the other.
  std::vector<double> left_;
  std::vector<double> right_;
};

// `count` values from 1 down to `smallest`, evenly spaced.
std::vector<double> LinearSpectrum(int64_t count, double smallest);

// `count` values from 1 down to `smallest`, evenly spaced in their logarithms.
std::vector<double> LogSpectrum(int64_t count, double smallest);

// `ones` values of 1, the rest of `count` is 0.
std::vector<double> RankSpectrum(int64_t count, int64_t ones);

// 1, then count - 1 times `rest`.
std::vector<double> OutlierSpectrum(int64_t count, double rest);

// At least the largest singular value of `x` [rows, cols], and at most
// min(rows, cols)^(1/512) times it. NaN if `x` is not finite.
double SpectralNormBound(const std::vector<double>& x, int64_t rows,
                         int64_t cols);

}  // namespace muonshard::testing

#endif  // TESTING_KNOWN_SPECTRA_H_
