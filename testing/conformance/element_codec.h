// What the bits of an element mean, in plain arithmetic: slow, short, and
// independent of the conversions that it helps to test.
//
// Numerics     Reals are rounded to the nearest, ties to even, overflow to
//              infinity.

#ifndef TESTING_CONFORMANCE_ELEMENT_CODEC_H_
#define TESTING_CONFORMANCE_ELEMENT_CODEC_H_

#include <cstdint>
#include <string>

#include "collectives/data_type.h"

namespace muonshard::testing {

// 16-bit types, whose values are no C++ type here.
float BF16ToFloat(uint16_t bits);
uint16_t FloatToBF16(float value);
float F16ToFloat(uint16_t bits);
uint16_t FloatToF16(float value);

// The value of an element of any type. Loses bits of i64 beyond 2^53.
double DecodeReal(DataType type, const void* element);
// Writes a value as an element of a floating type, through f32 for the 16-bit
// types.
void EncodeReal(double value, DataType type, void* element);
// Writes an integer that the type holds exactly, as an element of any type.
void EncodeInteger(int64_t value, DataType type, void* element);

// Value and bits of an element, for a person.
std::string Printed(DataType type, const void* element);

}  // namespace muonshard::testing

#endif  // TESTING_CONFORMANCE_ELEMENT_CODEC_H_
