#include <cuda_runtime_api.h>

#include "gtest/gtest.h"

namespace muonshard {
namespace {

TEST(CudaHeaders, NameAVersionWithStreamOrderedAllocation) {
  EXPECT_GE(CUDART_VERSION, 11020);
}

}  // namespace
}  // namespace muonshard
