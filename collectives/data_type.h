// Element types of buffers, parameters and gradients.

#ifndef COLLECTIVES_DATA_TYPE_H_
#define COLLECTIVES_DATA_TYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace muonshard {

// The values are those of plugin_abi.h.
enum class DataType : uint32_t {
  kBF16 = 1,
  kF16 = 2,
  kF32 = 3,
  kF64 = 4,
  kI32 = 5,
  kI64 = 6,
  kU8 = 7,
};

// Size of one element, in bytes.
constexpr size_t ByteWidth(DataType type) {
  switch (type) {
    case DataType::kU8:
      return 1;
    case DataType::kBF16:
    case DataType::kF16:
      return 2;
    case DataType::kF32:
    case DataType::kI32:
      return 4;
    case DataType::kF64:
    case DataType::kI64:
      return 8;
  }
  return 0;
}

constexpr absl::string_view DataTypeName(DataType type) {
  switch (type) {
    case DataType::kBF16:
      return "bf16";
    case DataType::kF16:
      return "f16";
    case DataType::kF32:
      return "f32";
    case DataType::kF64:
      return "f64";
    case DataType::kI32:
      return "i32";
    case DataType::kI64:
      return "i64";
    case DataType::kU8:
      return "u8";
  }
  return "unknown";
}

}  // namespace muonshard

#endif  // COLLECTIVES_DATA_TYPE_H_
