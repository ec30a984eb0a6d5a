// A run of elements of any type that knows whether someone wrote beside it.
//
// Memory       The elements lie between two guards. A run of no elements hands
//              out null pointers, which the contract allows.
// Numerics     The values of `SmallIntegers` are such that every type holds the
//              sums of up to 17 of them, and their halves, exactly; those of
//              `Random` are such that the order of a sum shows in its bits.

#ifndef TESTING_CONFORMANCE_ELEMENTS_H_
#define TESTING_CONFORMANCE_ELEMENTS_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/buffer.h"
#include "collectives/data_type.h"

namespace muonshard::testing {

inline constexpr DataType kAllDataTypes[] = {
    DataType::kBF16, DataType::kF16, DataType::kF32, DataType::kF64,
    DataType::kI32,  DataType::kI64, DataType::kU8};

constexpr bool IsFloating(DataType type) {
  return type == DataType::kBF16 || type == DataType::kF16 ||
         type == DataType::kF32 || type == DataType::kF64;
}

class Elements {
 public:
  Elements() : Elements(DataType::kU8, 0) {}
  // Every byte has the value of memory that nobody wrote.
  Elements(DataType type, int64_t count);

  // Integers in [0, 15].
  static Elements SmallIntegers(DataType type, int64_t count, uint64_t seed);
  // Finite values other than 0, of both signs where the type has them. Their
  // sums over 16 ranks neither overflow nor cancel to a denormal in f32.
  static Elements Random(DataType type, int64_t count, uint64_t seed);
  // Any bits, NaNs among them: for operations that only move data.
  static Elements RandomBits(DataType type, int64_t count, uint64_t seed);

  DataType type() const { return type_; }
  int64_t count() const { return count_; }

  ConstBuffer in() const { return in(0, count_); }
  ConstBuffer in(int64_t begin, int64_t count) const;
  MutableBuffer out() { return out(0, count_); }
  MutableBuffer out(int64_t begin, int64_t count);

  // A copy of `count` elements from `begin` on.
  Elements Slice(int64_t begin, int64_t count) const;
  // Puts `part` over the elements from `begin` on.
  void Overwrite(int64_t begin, const Elements& part);

  std::span<std::byte> bytes();
  std::span<const std::byte> bytes() const;

  // Whether nobody wrote beside the elements.
  bool GuardsAreIntact() const;

 private:
  DataType type_;
  int64_t count_;
  std::vector<std::byte> storage_;
};

// That `got` has the type, count and bits of `want`, and whole guards.
::testing::AssertionResult HasBitsOf(const Elements& got, const Elements& want);

// A hash of its arguments, to make seeds of ranks, steps and types.
uint64_t Seed(uint64_t a, uint64_t b = 0, uint64_t c = 0);

}  // namespace muonshard::testing

#endif  // TESTING_CONFORMANCE_ELEMENTS_H_
