#include "collectives/tcp/byte_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace muonshard {
namespace {

TEST(ByteQueue, GivesBackWhatWasAddedInOrder) {
  ByteQueue queue;
  EXPECT_TRUE(queue.empty());
  queue.Append("abc");
  queue.Append("def");
  EXPECT_EQ(queue.size(), 6u);
  queue.Drop(2);
  EXPECT_EQ(queue.bytes(), "cdef");
  queue.Drop(3);
  queue.Append("gh");
  EXPECT_EQ(queue.bytes(), "fgh");
  queue.Drop(3);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.size(), 0u);
}

TEST(ByteQueue, KeepsALongStreamThatIsReadInPieces) {
  ByteQueue queue;
  std::string expected;
  std::string got;
  for (int i = 0; i < 2000; ++i) {
    const std::string piece(static_cast<size_t>(i % 37),
                            static_cast<char>('a' + i % 26));
    expected += piece;
    queue.Append(piece);
    const size_t taken = queue.size() / 2;
    got += std::string(queue.bytes().substr(0, taken));
    queue.Drop(taken);
  }
  got += std::string(queue.bytes());
  EXPECT_EQ(got, expected);
}

TEST(ByteQueue, IsGoodAfterAVeryLongPiece) {
  ByteQueue queue;
  queue.Append(std::string(1 << 20, 'x'));
  queue.Drop(1 << 20);
  queue.Append("y");
  EXPECT_EQ(queue.bytes(), "y");
}

}  // namespace
}  // namespace muonshard
