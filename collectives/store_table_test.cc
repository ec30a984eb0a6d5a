#include "collectives/store_table.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <new>
#include <string>

#include "collectives/plugin_status.h"
#include "collectives/runtime/threads_runtime.h"

namespace muonshard {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class StoreTableTest : public ::testing::Test {
 protected:
  const std::unique_ptr<Runtime> runtime_ = NewThreadsRuntime();
  const std::unique_ptr<Store> store_ = NewInProcessStore(*runtime_);
  const StoreTable table_{*store_};
  const muonshard_store& abi_ = *table_.get();
  muonshard_status status_ = EmptyPluginStatus();
};

TEST_F(StoreTableTest, AValueComesBack) {
  EXPECT_EQ(abi_.put(abi_.context, "key", "a\0b", 3, &status_), MUONSHARD_OK);
  char value[8] = {};
  uint64_t bytes = 0;
  EXPECT_EQ(abi_.get(abi_.context, "key", value, sizeof(value), &bytes, kNever,
                     &status_),
            MUONSHARD_OK);
  EXPECT_EQ(std::string(value, bytes), std::string("a\0b", 3));
  EXPECT_EQ(status_.code, MUONSHARD_OK);
}

TEST_F(StoreTableTest, ABufferThatIsTooShortGetsTheHeadAndTheSizeOfAll) {
  EXPECT_EQ(abi_.put(abi_.context, "key", "abcdef", 6, nullptr), MUONSHARD_OK);
  char value[] = {'-', '-', '-', '-'};
  uint64_t bytes = 0;
  EXPECT_EQ(abi_.get(abi_.context, "key", value, 3, &bytes, kNever, nullptr),
            MUONSHARD_OK);
  EXPECT_EQ(bytes, 6);
  EXPECT_EQ(std::string(value, 4), "abc-");
  EXPECT_EQ(abi_.get(abi_.context, "key", nullptr, 0, &bytes, kNever, nullptr),
            MUONSHARD_OK);
}

TEST_F(StoreTableTest, AddGivesTheSum) {
  int64_t now = 0;
  EXPECT_EQ(abi_.add(abi_.context, "n", 5, &now, &status_), MUONSHARD_OK);
  EXPECT_EQ(abi_.add(abi_.context, "n", -2, &now, &status_), MUONSHARD_OK);
  EXPECT_EQ(now, 3);
}

TEST_F(StoreTableTest, ErrorsHaveTheirCodeAndText) {
  uint64_t bytes = 0;
  int64_t now = 0;
  EXPECT_EQ(abi_.get(abi_.context, "absent", nullptr, 0, &bytes, 0, &status_),
            MUONSHARD_E_TIMEOUT);
  EXPECT_NE(std::string(status_.text).find("absent"), std::string::npos);
  EXPECT_EQ(abi_.put(abi_.context, "", nullptr, 0, &status_),
            MUONSHARD_E_ARGUMENT);
  EXPECT_EQ(abi_.add(abi_.context, "a b", 1, &now, nullptr),
            MUONSHARD_E_ARGUMENT);
}

// A machine without memory.
class ExhaustedStore final : public Store {
 public:
  absl::Status Put(absl::string_view, absl::string_view) override {
    throw std::bad_alloc();
  }
  absl::StatusOr<std::string> Get(absl::string_view, absl::Time) override {
    throw std::bad_alloc();
  }
  absl::StatusOr<int64_t> Add(absl::string_view, int64_t) override {
    throw std::bad_alloc();
  }
};

TEST(StoreTableMemoryTest, NoExceptionCrosses) {
  ExhaustedStore store;
  const StoreTable table(store);
  const muonshard_store& abi = *table.get();
  muonshard_status status = EmptyPluginStatus();
  EXPECT_EQ(abi.put(abi.context, "key", "", 0, &status), MUONSHARD_E_MEMORY);
  EXPECT_EQ(status.code, MUONSHARD_E_MEMORY);
  int64_t now = 0;
  EXPECT_EQ(abi.add(abi.context, "key", 1, &now, nullptr), MUONSHARD_E_MEMORY);
}

}  // namespace
}  // namespace muonshard
