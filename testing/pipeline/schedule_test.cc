#include "testing/pipeline/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace muonshard::testing {
namespace {

using ::testing::ElementsAre;

TEST(ScheduleTest, TheFirstOfTwoStagesIsOneForwardAhead) {
  EXPECT_THAT(OneForwardOneBackward({.stages = 2, .micro_batches = 3}, 0),
              ElementsAre(Passage{true, 0, 0}, Passage{true, 0, 1},
                          Passage{false, 0, 0}, Passage{true, 0, 2},
                          Passage{false, 0, 1}, Passage{false, 0, 2}));
  EXPECT_THAT(OneForwardOneBackward({.stages = 2, .micro_batches = 3}, 1),
              ElementsAre(Passage{true, 0, 0}, Passage{false, 0, 0},
                          Passage{true, 0, 1}, Passage{false, 0, 1},
                          Passage{true, 0, 2}, Passage{false, 0, 2}));
}

TEST(ScheduleTest, ChunksTakeTurnsAndBackwardsBeginWithTheLast) {
  EXPECT_THAT(
      OneForwardOneBackward({.stages = 2, .chunks = 2, .micro_batches = 2}, 1),
      ElementsAre(Passage{true, 0, 0}, Passage{true, 0, 1}, Passage{true, 1, 0},
                  Passage{false, 1, 0}, Passage{true, 1, 1},
                  Passage{false, 1, 1}, Passage{false, 0, 0},
                  Passage{false, 0, 1}));
}

struct Position {
  size_t stage;
  size_t place;  // In the order of the stage.
};

// A schedule is possible if every stage can always find the passage that its
// next one needs among those that others have made: run it.
TEST(ScheduleTest, EveryScheduleRunsToItsEnd) {
  for (const int32_t stages : {1, 2, 3, 4}) {
    for (const int32_t chunks : {1, 2, 3}) {
      for (const int32_t rounds : {1, 2, 3}) {
        const PipelineShape shape{.stages = stages,
                                  .chunks = chunks,
                                  .micro_batches = stages * rounds};
        const int32_t last = stages * chunks - 1;
        std::vector<std::vector<Passage>> orders;
        for (int32_t s = 0; s < stages; ++s) {
          orders.push_back(OneForwardOneBackward(shape, s));
          EXPECT_EQ(orders.back().size(),
                    static_cast<size_t>(2 * shape.micro_batches * chunks));
        }
        // Whether (forward, depth in the model, micro-batch) was made.
        std::vector<std::vector<bool>> made[2];
        for (auto& direction : made) {
          direction.assign(
              static_cast<size_t>(last) + 1,
              std::vector<bool>(static_cast<size_t>(shape.micro_batches)));
        }
        std::vector<size_t> next(orders.size(), 0);
        bool moved = true;
        while (moved) {
          moved = false;
          for (size_t s = 0; s < orders.size(); ++s) {
            if (next[s] == orders[s].size()) continue;
            const Passage& passage = orders[s][next[s]];
            const auto depth = static_cast<size_t>(passage.chunk * stages) + s;
            const auto m = static_cast<size_t>(passage.micro_batch);
            const bool possible =
                passage.forward ? depth == 0 || made[1][depth - 1][m]
                                : made[1][depth][m] &&
                                      (depth == static_cast<size_t>(last) ||
                                       made[0][depth + 1][m]);
            if (!possible) continue;
            EXPECT_FALSE(made[passage.forward ? 1 : 0][depth][m]);
            made[passage.forward ? 1 : 0][depth][m] = true;
            ++next[s];
            moved = true;
          }
        }
        for (size_t s = 0; s < orders.size(); ++s) {
          EXPECT_EQ(next[s], orders[s].size())
              << stages << " stages, " << chunks << " chunks, stage " << s;
        }
      }
    }
  }
}

}  // namespace
}  // namespace muonshard::testing
