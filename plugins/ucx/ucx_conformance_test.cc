#include "testing/conformance/collective_conformance.h"

namespace muonshard::testing {

MUONSHARD_INSTANTIATE_REAL_TIME_CONFORMANCE(Ucx, "ucx");

}  // namespace muonshard::testing
