#include "collectives/runtime/sim_fiber.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace muonshard {
namespace {

struct PingPong {
  Fiber root;
  std::unique_ptr<Fiber> fiber;
  std::vector<int> order;
};

void Pong(void* argument) {
  PingPong& game = *static_cast<PingPong*>(argument);
  for (int i = 0; i < 3; ++i) {
    game.order.push_back(2 * i + 1);
    Fiber::Switch(*game.fiber, game.root);
  }
  Fiber::SwitchForGood(*game.fiber, game.root);
}

TEST(SimFiber, EachSwitchGoesOnWhereTheOtherLeft) {
  FiberStackPool stacks(0);
  PingPong game;
  game.fiber = std::make_unique<Fiber>(stacks, &Pong, &game);
  for (int i = 0; i < 3; ++i) {
    game.order.push_back(2 * i);
    Fiber::Switch(game.root, *game.fiber);
  }
  Fiber::Switch(game.root, *game.fiber);
  EXPECT_EQ(game.order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(SimFiber, AStackIsUsedAgain) {
  FiberStackPool stacks(size_t{100} << 10);
  EXPECT_GE(stacks.stack_bytes(), size_t{100} << 10);
  void* const stack = stacks.Take();
  void* const other = stacks.Take();
  EXPECT_NE(other, stack);
  stacks.Return(stack);
  EXPECT_EQ(stacks.Take(), stack);
  stacks.Return(stack);
  stacks.Return(other);
}

TEST(SimFiber, TheWholeStackCanBeWrittenAndThePageBelowTraps) {
  FiberStackPool stacks(size_t{64} << 10);
  auto* const stack = static_cast<volatile uint8_t*>(stacks.Take());
  stack[0] = 1;
  stack[stacks.stack_bytes() - 1] = 1;
  EXPECT_DEATH(stack[-1] = 1, "");
  stacks.Return(const_cast<uint8_t*>(stack));
}

TEST(SimFiber, AStackThatCannotBeMappedEndsTheProcessWithItsSize) {
  FiberStackPool stacks(size_t{1} << 60);
  EXPECT_DEATH(stacks.Take(), "1152921504606846976 bytes wanted");
}

}  // namespace
}  // namespace muonshard
