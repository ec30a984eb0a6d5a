// Few rows that contain every triple of values of any three factors.
//
// In this file
//   factor   something that has one of several values, numbered from 0
//   row      one value of each factor
//
// Result     The same for the same numbers of values, everywhere.
// Cost       Greedy over the full product, which has to be small.

#ifndef TESTING_COMBINATION_COVERING_ARRAY_H_
#define TESTING_COMBINATION_COVERING_ARRAY_H_

#include <cstdint>
#include <vector>

namespace muonshard::testing {

using Row = std::vector<int32_t>;

// All rows of factors with these numbers of values, the last factor fastest.
std::vector<Row> FullProduct(const std::vector<int32_t>& value_counts);

// For three factors or more.
std::vector<Row> CoverTriples(const std::vector<int32_t>& value_counts);

}  // namespace muonshard::testing

#endif  // TESTING_COMBINATION_COVERING_ARRAY_H_
