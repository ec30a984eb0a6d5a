// What loopback's report says of the operations of a rank, which number the
// places of a fault plan.

#ifndef TESTING_OPERATION_COUNT_H_
#define TESTING_OPERATION_COUNT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "topology/rank.h"

namespace muonshard::testing {

// Operations of one rank, as loopback counts them.
struct OperationRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// How many operations of `rank` there have been; 0 if `report` does not tell.
int64_t OperationCountIn(absl::string_view report, Rank rank);

}  // namespace muonshard::testing

#endif  // TESTING_OPERATION_COUNT_H_
