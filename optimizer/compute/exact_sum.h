// A sum of doubles that is exact, whatever the order of its terms: an integer
// in 32-bit limbs, wide enough for every finite double.
//
// The squared norm of all gradients is made of it: squares of each chunk are
// added in fp64 in a fixed order (`ChunkSumOfSquares`), chunk sums enter here,
// and the limbs of all ranks are summed as integers. So the norm has the same
// bits for any number of ranks and any cut.
//
// Numerics   `Add` is exact for finite terms >= 0. `Value` rounds once, to
//            nearest even; infinite above the range of a double.
// Threads    Like an int.

#ifndef OPTIMIZER_COMPUTE_EXACT_SUM_H_
#define OPTIMIZER_COMPUTE_EXACT_SUM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace muonshard {

// Limb i is worth 2^(32 i - 1074).
inline constexpr size_t kExactSumLimbs = 68;

// The values of one chunk, at most.
inline constexpr size_t kSquaresChunkCount = 128;

class ExactSum {
 public:
  // Adds a finite term >= 0.
  void Add(double term);

  // Adds limbs that another ExactSum exported, or a sum of at most 2^31 such.
  void AddLimbs(std::span<const int64_t, kExactSumLimbs> limbs);

  // Writes the value as limbs in [0, 2^32), so that 2^31 of them can be added
  // as int64 without overflow.
  void Export(std::span<int64_t, kExactSumLimbs> limbs) const;

  double Value() const;

 private:
  // Each adds less than 2^32 to a limb, so 2^30 would do; a smaller number
  // costs nothing, and tests reach it.
  static constexpr int32_t kAddsUntilCarry = 1 << 20;

  void Carry();

  std::array<int64_t, kExactSumLimbs> limbs_ = {};
  int32_t adds_until_carry_ = kAddsUntilCarry;
};

// The sum of the squares of one chunk's values, each converted to fp64, added
// in fp64: eight partial sums (value i goes to sum i mod 8), then
// ((0+1)+(2+3))+((4+5)+(6+7)). Not finite if a value is not.
double ChunkSumOfSquares(std::span<const float> values);

}  // namespace muonshard

#endif  // OPTIMIZER_COMPUTE_EXACT_SUM_H_
