#include "plugins/ucx/windows.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace muonshard::ucx {
namespace {

constexpr uint64_t kBytes = 10000;

// Two ranks of one process.
class WindowsTest : public ::testing::Test {
 protected:
  // A window on both ranks, with `own` of each.
  int32_t AddOnBoth() {
    std::vector<std::unique_ptr<SharedMemory>> made(2);
    for (auto& part : made) {
      EXPECT_TRUE(SharedMemory::Make(Windows::kHeadBytes + kBytes, &part).ok());
    }
    int32_t window = -1;
    std::vector<std::vector<std::unique_ptr<SharedMemory>>> parts(2);
    for (size_t rank = 0; rank < 2; ++rank) {
      parts[rank].resize(2);
      EXPECT_TRUE(SharedMemory::Open(getpid(), made[1 - rank]->descriptor(),
                                     made[1 - rank]->bytes(),
                                     &parts[rank][1 - rank])
                      .ok());
    }
    for (size_t rank = 0; rank < 2; ++rank) {
      data_[rank] = made[rank]->data() + Windows::kHeadBytes;
      parts[rank][rank] = std::move(made[rank]);
      const int32_t added = windows_[rank].Add(std::move(parts[rank]),
                                               static_cast<int32_t>(rank));
      EXPECT_TRUE(window < 0 || added == window);
      window = added;
    }
    return window;
  }

  Windows windows_[2];
  std::byte* data_[2] = {};
};

TEST_F(WindowsTest, APeerReadsWhatIsWritten) {
  const int32_t window = AddOnBoth();
  data_[1][100] = std::byte{42};
  const std::byte* const seen = windows_[0].At(1, window, 100, 1);
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(*seen, std::byte{42});
}

TEST_F(WindowsTest, OwnMemoryIsFoundWithItsPlace) {
  AddOnBoth();
  const int32_t second = AddOnBoth();
  int32_t window = -1;
  uint64_t offset = 0;
  ASSERT_TRUE(windows_[0].Find(data_[0] + 8, kBytes - 8, &window, &offset));
  EXPECT_EQ(window, second);
  EXPECT_EQ(offset, 8u);
  EXPECT_FALSE(windows_[0].Find(data_[0] + 8, kBytes - 7, &window, &offset));
  EXPECT_FALSE(windows_[0].Find(data_[1], 1, &window, &offset));
  const std::byte elsewhere = {};
  EXPECT_FALSE(windows_[0].Find(&elsewhere, 1, &window, &offset));
}

TEST_F(WindowsTest, NothingIsReadOutsideAWindow) {
  const int32_t window = AddOnBoth();
  EXPECT_NE(windows_[0].At(1, window, 0, kBytes), nullptr);
  EXPECT_EQ(windows_[0].At(1, window, 1, kBytes), nullptr);
  EXPECT_EQ(windows_[0].At(1, window, UINT64_MAX, 2), nullptr);
  EXPECT_EQ(windows_[0].At(1, window + 1, 0, 1), nullptr);
  EXPECT_EQ(windows_[0].At(1, -7, 0, 1), nullptr);
}

TEST_F(WindowsTest, OnesOwnPartIsFreedWithoutThePeers) {
  const int32_t window = AddOnBoth();
  EXPECT_TRUE(windows_[0].Free(window));
  EXPECT_FALSE(windows_[0].Free(window));
  // The peer still sends from its own.
  data_[1][0] = std::byte{9};
  ASSERT_NE(windows_[0].At(1, window, 0, 1), nullptr);
  EXPECT_EQ(*windows_[0].At(1, window, 0, 1), std::byte{9});
  EXPECT_TRUE(windows_[1].Free(window));
  // Seen when somebody next looks.
  AddOnBoth();
  EXPECT_EQ(windows_[0].At(1, window, 0, 1), nullptr);
}

TEST_F(WindowsTest, AWindowThatWasNotMadeUsesItsNumberUp) {
  windows_[0].Skip();
  windows_[1].Skip();
  EXPECT_EQ(AddOnBoth(), 1);
  int32_t window = -1;
  uint64_t offset = 0;
  ASSERT_TRUE(windows_[1].Find(data_[1], 1, &window, &offset));
  EXPECT_EQ(window, 1);
}

}  // namespace
}  // namespace muonshard::ucx
