#include "testing/conformance/collective_conformance.h"

namespace muonshard::testing {
namespace {

MUONSHARD_INSTANTIATE_COLLECTIVE_CONFORMANCE(Loopback, "loopback");

}  // namespace
}  // namespace muonshard::testing
