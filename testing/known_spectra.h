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

}  // namespace muonshard::testing

#endif  // TESTING_KNOWN_SPECTRA_H_
