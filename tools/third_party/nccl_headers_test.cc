#include <nccl.h>

#include "gtest/gtest.h"

namespace muonshard {
namespace {

TEST(NcclHeaders, NameAVersionWithNonBlockingGroups) {
  EXPECT_GE(NCCL_VERSION_CODE, NCCL_VERSION(2, 14, 0));
}

}  // namespace
}  // namespace muonshard
