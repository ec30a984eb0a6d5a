// Borrowed runs of elements, and a copyable view of where they lie.

#ifndef COLLECTIVES_BUFFER_H_
#define COLLECTIVES_BUFFER_H_

#include <cstdint>
#include <span>

#include "collectives/data_type.h"

namespace muonshard {

template <typename T>
struct DataTypeOf;
template <>
struct DataTypeOf<float> {
  static constexpr DataType value = DataType::kF32;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType value = DataType::kF64;
};
template <>
struct DataTypeOf<int32_t> {
  static constexpr DataType value = DataType::kI32;
};
template <>
struct DataTypeOf<int64_t> {
  static constexpr DataType value = DataType::kI64;
};
template <>
struct DataTypeOf<uint8_t> {
  static constexpr DataType value = DataType::kU8;
};

// A contiguous run of elements that someone else owns. `count` is in elements;
// `data` may be null only when it is 0.
struct ConstBuffer {
  const void* data = nullptr;
  int64_t count = 0;
  DataType type = DataType::kF32;

  template <typename T>
  static ConstBuffer Of(std::span<const T> elements) {
    return {elements.data(), static_cast<int64_t>(elements.size()),
            DataTypeOf<T>::value};
  }
};

struct MutableBuffer {
  void* data = nullptr;
  int64_t count = 0;
  DataType type = DataType::kF32;

  template <typename T>
  static MutableBuffer Of(std::span<T> elements) {
    return {elements.data(), static_cast<int64_t>(elements.size()),
            DataTypeOf<T>::value};
  }
};

}  // namespace muonshard

#endif  // COLLECTIVES_BUFFER_H_
