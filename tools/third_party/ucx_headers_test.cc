#include <ucp/api/ucp.h>

#include "gtest/gtest.h"

namespace muonshard {
namespace {

TEST(UcxHeaders, NameAVersionWithActiveMessages) {
  EXPECT_GE(UCP_API_VERSION, UCP_VERSION(1, 11));
}

}  // namespace
}  // namespace muonshard
