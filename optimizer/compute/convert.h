// Conversion between f32 and the floating types of parameters and gradients.
//
// Numerics   To a narrower type: nearest, ties to even; NaN stays NaN and
//            overflow becomes infinite. To f32: exact for bf16 and f16, rounded
//            for f64.

#ifndef OPTIMIZER_COMPUTE_CONVERT_H_
#define OPTIMIZER_COMPUTE_CONVERT_H_

#include <cstdint>
#include <span>

#include "collectives/data_type.h"

namespace muonshard {

// bf16, f16, f32 and f64.
bool IsFloating(DataType type);

// Reads out.size() elements of `type`.
void ToFloat(DataType type, const void* in, std::span<float> out);

// Writes in.size() elements of `type`.
void FromFloat(DataType type, std::span<const float> in, void* out);

// sum[i] += in[i], in f32.
void AddToFloat(DataType type, const void* in, std::span<float> sum);

// The number of elements that are infinite or NaN.
int64_t CountNonFinite(DataType type, const void* in, int64_t count);

}  // namespace muonshard

#endif  // OPTIMIZER_COMPUTE_CONVERT_H_
