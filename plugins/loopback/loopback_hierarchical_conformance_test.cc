#include "testing/conformance/collective_conformance.h"

namespace muonshard::testing {
namespace {

MUONSHARD_INSTANTIATE_HIERARCHICAL_CONFORMANCE(Hierarchy, "loopback");

}  // namespace
}  // namespace muonshard::testing
