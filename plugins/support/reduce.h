// The canonical reduction of N contributions.
//
// Numerics     Each contribution is converted to the accumulation type (f32
//              for f16 and bf16, else its own), folded left to right over
//              ranks 0..N-1, scaled once if there is a scale, rounded once. So
//              the bits do not depend on how a run is cut. Integer sums wrap. A
//              NaN in any contribution is a NaN in min and max.
// Memory       `out` may equal one of the inputs; it overlaps none in part.

#ifndef PLUGINS_SUPPORT_REDUCE_H_
#define PLUGINS_SUPPORT_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace muonshard::plugins {

struct Reduction {
  uint32_t data_type = 0;  // MUONSHARD_F32, ...
  uint32_t kind = 0;       // MUONSHARD_SUM, ...
  double scale = 1;        // Of MUONSHARD_SCALED_SUM.
};

// out[i] = the reduction of inputs[r][i] over r, for i in [0, count). Average
// and scaled sum are for floating types.
void Reduce(const Reduction& reduction,
            std::span<const std::byte* const> inputs, size_t count,
            std::byte* out);

// Vector code that a processor may have. It changes no bit.
enum class Vectors { kPlain, kWide, kWidest };
bool Has(Vectors vectors);

// As Reduce, which takes the widest that the processor at hand has.
void ReduceWith(Vectors vectors, const Reduction& reduction,
                std::span<const std::byte* const> inputs, size_t count,
                std::byte* out);

}  // namespace muonshard::plugins

#endif  // PLUGINS_SUPPORT_REDUCE_H_
