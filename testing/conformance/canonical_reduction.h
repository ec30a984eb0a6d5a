// The canonical result of a reduction, in plain loops: the oracle.
//
// Numerics     As collectives/collective.h says: each contribution converted to
//              the accumulation type, folded left to right over the ranks,
//              scaled once if there is a scale, rounded once. The scale itself
//              is first rounded to the accumulation type. Of a hierarchy, the
//              same per level, with the scales that
//              collectives/hierarchical_collective.h gives to each.

#ifndef TESTING_CONFORMANCE_CANONICAL_REDUCTION_H_
#define TESTING_CONFORMANCE_CANONICAL_REDUCTION_H_

#include <cstdint>
#include <span>

#include "collectives/operation.h"
#include "testing/conformance/elements.h"

namespace muonshard::testing {

// `contributions` are in rank order, at least one, alike in type and count;
// each `lanes` in a row are of one host.
Elements CanonicalReduction(std::span<const Elements> contributions,
                            const Reduction& reduction, int32_t lanes = 1);

// That every element of `got` is as near the exact result as any order of
// roundings brings it: each of at most 2 * N operations in the type itself
// errs by half a unit in the last place of what it adds up to, at most the sum
// of the magnitudes. Integers must be exact.
::testing::AssertionResult IsWithinOneRoundingPerHop(
    const Elements& got, std::span<const Elements> contributions,
    const Reduction& reduction);

}  // namespace muonshard::testing

#endif  // TESTING_CONFORMANCE_CANONICAL_REDUCTION_H_
