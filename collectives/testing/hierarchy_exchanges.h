// Calls on every rank of a hierarchy, with what they should leave.

#ifndef COLLECTIVES_TESTING_HIERARCHY_EXCHANGES_H_
#define COLLECTIVES_TESTING_HIERARCHY_EXCHANGES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/operation.h"
#include "collectives/testing/hierarchy_test.h"
#include "testing/conformance/elements.h"
#include "testing/conformance/exchange.h"

namespace muonshard::testing {

// Uneven, and empty for the first rank and for one host of several lanes.
Segments Cut(const HierarchyShape& shape);

// What the reductions should leave is up to the caller.
Exchange Scatter(std::vector<Elements> in, const Segments& cut,
                 const Reduction& reduction);
Exchange Sum(std::vector<Elements> in, const Reduction& reduction);
Exchange Gather(const Elements& whole, const Segments& cut);
Exchange FromRoot(const Elements& sent, size_t ranks, Rank root);

// Small integers, of which every order of a sum has the same bits, in all four
// operations that go through the levels.
std::vector<Exchange> ExactExchanges(const HierarchyShape& shape);

// Makes what `flat` has left what `exchanges` should leave.
void WantWhatCameOf(std::span<const Exchange> flat,
                    std::span<Exchange> exchanges);

void ExpectWanted(std::span<const Exchange> exchanges);

}  // namespace muonshard::testing

#endif  // COLLECTIVES_TESTING_HIERARCHY_EXCHANGES_H_
