#include "tools/trainer/moe_layer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "testing/rank_harness.h"
#include "testing/status_matchers.h"
#include "tools/trainer/gpt_model.h"
#include "tools/trainer/status_exception.h"
#include "tools/trainer/token_exchange.h"

namespace muonshard {
namespace {

using ::testing::Each;
using testing::IsOk;
using testing::RankRun;
using testing::RunOnRanks;
using testing::StatusIs;

constexpr int64_t kWidth = 6;
constexpr int64_t kExperts = 8;
constexpr absl::Duration kTimeout = absl::Minutes(1);

// Values in [-1, 1) that depend on `seed` and the index alone.
at::Tensor Values(at::IntArrayRef shape, int64_t seed) {
  at::Tensor values = at::empty(shape, at::kFloat);
  float* data = values.data_ptr<float>();
  uint64_t state = static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15 + 1;
  for (int64_t i = 0; i < values.numel(); ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    data[i] = static_cast<float>(state >> 40) * 0x1.0p-23f - 1;
  }
  return values;
}

// What the ranks of a layer have: positions differ, in number too; the router
// is the same, so is what the result is measured with.
struct LayerCase {
  int32_t ranks = 1;
  // All positions choose the last expert, and others get none.
  bool skewed = false;

  int64_t PositionCount(int32_t rank) const { return 5 + 3 * (rank % 3); }
  at::Tensor Positions(int32_t rank) const {
    at::Tensor values = Values({PositionCount(rank), kWidth}, 10 + rank);
    if (skewed) values.select(1, 0).fill_(1);
    return values;
  }
  at::Tensor Router() const {
    at::Tensor router = Values({kExperts, kWidth}, 1);
    if (!skewed) return router;
    // Beyond what all 6 features, of at most 1, can make of two rows, and
    // little enough that probabilities stay away from 1.
    router.mul_(0.1);
    router.index({kExperts - 1, 0}).fill_(2);
    return router;
  }
  at::Tensor Up() const { return Values({kExperts, 4 * kWidth, kWidth}, 2); }
  at::Tensor Down() const { return Values({kExperts, kWidth, 4 * kWidth}, 3); }
  at::Tensor Target(int32_t rank) const {
    return Values({PositionCount(rank), kWidth}, 100 + rank);
  }
};

// What a rank's loss, and all ranks' losses together, give.
struct LayerResult {
  at::Tensor mixed, imbalance;
  at::Tensor positions_gradient, router_gradient;  // Of the rank's loss.
  at::Tensor up_gradient, down_gradient;           // Of all, whole banks.
};

at::Tensor Leaf(const at::Tensor& values) {
  return values.detach().clone().set_requires_grad(true);
}

at::Tensor LossOf(const at::Tensor& mixed, const at::Tensor& imbalance,
                  const at::Tensor& target) {
  return (mixed * target).sum() + imbalance;
}

// Every expert on every position, in f64 on one process: what is not chosen is
// multiplied by 0.
std::vector<LayerResult> Reference(const LayerCase& layer) {
  const at::Tensor up = Leaf(layer.Up().to(at::kDouble));
  const at::Tensor down = Leaf(layer.Down().to(at::kDouble));
  std::vector<LayerResult> results;
  std::vector<std::pair<at::Tensor, at::Tensor>> leaves;
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (int32_t r = 0; r < layer.ranks; ++r) {
    const at::Tensor x = Leaf(layer.Positions(r).to(at::kDouble));
    const at::Tensor router = Leaf(layer.Router().to(at::kDouble));
    const at::Tensor p = at::softmax(at::matmul(x, router.t()), -1);
    const at::Tensor chosen =
        at::one_hot(p.argmax(-1), kExperts).to(at::kDouble);
    LayerResult result;
    result.mixed = at::zeros_like(x);
    for (int64_t e = 0; e < kExperts; ++e) {
      const at::Tensor y =
          at::matmul(at::gelu(at::matmul(x, up.select(0, e).t()), "tanh"),
                     down.select(0, e).t());
      result.mixed = result.mixed + y * (chosen * p).select(1, e).unsqueeze(1);
    }
    result.imbalance = kExperts * (chosen.mean(0) * p.mean(0)).sum();
    loss = loss + LossOf(result.mixed, result.imbalance,
                         layer.Target(r).to(at::kDouble));
    leaves.emplace_back(x, router);
    results.push_back(result);
  }
  loss.backward();
  for (size_t r = 0; r < results.size(); ++r) {
    results[r].positions_gradient = leaves[r].first.grad();
    results[r].router_gradient = leaves[r].second.grad();
    results[r].up_gradient = up.grad();
    results[r].down_gradient = down.grad();
  }
  return results;
}

// What turns exceptions into a status, as GptModel does.
absl::Status Caught(const std::function<void()>& function) {
  try {
    function();
  } catch (const StatusException& e) {
    return e.status;
  } catch (const std::exception& e) {
    return absl::InternalError(e.what());
  }
  return absl::OkStatus();
}

// The banks' gradients are those of the own experts.
LayerResult RunLayer(const LayerCase& layer, Collective* group, int32_t rank) {
  const TokenExchange exchange(group, kTimeout);
  const int64_t own = kExperts / exchange.size();
  const at::Tensor x = Leaf(layer.Positions(rank));
  MoeWeights weights;
  weights.router = Leaf(layer.Router());
  weights.up = Leaf(layer.Up().narrow(0, rank * own, own));
  weights.down = Leaf(layer.Down().narrow(0, rank * own, own));
  const MoeResult moe = MoeForward(x, weights, exchange);
  LossOf(moe.mixed, moe.imbalance, layer.Target(rank)).backward();
  return {moe.mixed.detach(),    moe.imbalance.detach(), x.grad(),
          weights.router.grad(), weights.up.grad(),      weights.down.grad()};
}

std::vector<LayerResult> RunAll(const LayerCase& layer) {
  std::vector<LayerResult> results(static_cast<size_t>(layer.ranks));
  if (layer.ranks == 1) {
    results[0] = RunLayer(layer, nullptr, 0);
    return results;
  }
  const RankRun run = RunOnRanks({.size = layer.ranks}, [&](Collective& world) {
    const int32_t rank = ToInt(world.rank());
    return Caught([&] {
      results[static_cast<size_t>(rank)] = RunLayer(layer, &world, rank);
    });
  });
  EXPECT_THAT(run.results, Each(IsOk()));
  return results;
}

// A value goes through at most 8 sums of up to 4 width terms, or of all
// positions of 4 ranks, each with one rounding of 2^-24 a term, of terms that
// no sum makes larger than the largest value by more than its number of terms.
void ExpectClose(const at::Tensor& got, const at::Tensor& want,
                 const std::string& what) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  const double scale = want.abs().max().item<double>();
  const double terms = 4 * kWidth + 4 * 11;
  EXPECT_LE((got.to(at::kDouble) - want).abs().max().item<double>(),
            8 * terms * 0x1.0p-24 * scale)
      << what;
}

class MoeLayerTest
    : public ::testing::TestWithParam<std::tuple<int32_t, bool>> {
 protected:
  MoeLayerTest() { UseOneThread(); }
  LayerCase layer() const {
    return {.ranks = std::get<0>(GetParam()),
            .skewed = std::get<1>(GetParam())};
  }
};

TEST_P(MoeLayerTest, EqualsEveryExpertOnEveryPositionForwardAndBackward) {
  const std::vector<LayerResult> want = Reference(layer());
  const std::vector<LayerResult> got = RunAll(layer());
  const int64_t own = kExperts / layer().ranks;
  for (int32_t r = 0; r < layer().ranks; ++r) {
    SCOPED_TRACE(r);
    const LayerResult& g = got[static_cast<size_t>(r)];
    const LayerResult& w = want[static_cast<size_t>(r)];
    ExpectClose(g.mixed, w.mixed, "mixed");
    ExpectClose(g.imbalance, w.imbalance, "imbalance");
    ExpectClose(g.positions_gradient, w.positions_gradient, "positions");
    ExpectClose(g.router_gradient, w.router_gradient, "router");
    ExpectClose(g.up_gradient, w.up_gradient.narrow(0, r * own, own), "up");
    ExpectClose(g.down_gradient, w.down_gradient.narrow(0, r * own, own),
                "down");
  }
}

TEST_P(MoeLayerTest, TheSameInputsGiveTheSameBits) {
  const std::vector<LayerResult> first = RunAll(layer());
  const std::vector<LayerResult> second = RunAll(layer());
  for (size_t r = 0; r < first.size(); ++r) {
    EXPECT_TRUE(first[r].mixed.equal(second[r].mixed));
    EXPECT_TRUE(first[r].up_gradient.equal(second[r].up_gradient));
    EXPECT_TRUE(
        first[r].positions_gradient.equal(second[r].positions_gradient));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, MoeLayerTest,
                         ::testing::Combine(::testing::Values(1, 2, 4, 8),
                                            ::testing::Bool()));

TEST(MoeLayerCountsTest, EveryPositionIsCountedAtItsExpert) {
  const LayerCase layer{.skewed = true};
  const MoeResult moe =
      MoeForward(layer.Positions(0), {layer.Router(), layer.Up(), layer.Down()},
                 TokenExchange(nullptr, kTimeout));
  std::vector<int64_t> all_at_the_last(kExperts);
  all_at_the_last.back() = layer.PositionCount(0);
  EXPECT_EQ(moe.chosen, all_at_the_last);
}

TEST(TokenExchangeTest, AGroupThatBreaksInABackwardThrowsItsStatus) {
  const RankRun run = RunOnRanks({.size = 2}, [](Collective& world) {
    const TokenExchange exchange(&world, kTimeout);
    const at::Tensor rows = Leaf(Values({2, 3}, 1));
    at::Tensor arrived;
    const absl::Status forward = Caught([&] {
      arrived = exchange.Rows(rows, {{1, 1}, {1, 1}});
    });
    EXPECT_THAT(forward, IsOk());
    if (world.rank() == Rank{1}) {
      world.Abort(absl::UnavailableError("rank 1 has had enough"));
      return absl::OkStatus();
    }
    return Caught([&] { arrived.sum().backward(); });
  });
  EXPECT_THAT(run.results[0],
              StatusIs(absl::StatusCode::kAborted, "has had enough"));
}

TEST(TokenExchangeTest, CountsThatDisagreeAreAnErrorOnBothRanks) {
  const RankRun run = RunOnRanks({.size = 2}, [](Collective& world) {
    const TokenExchange exchange(&world, kTimeout);
    // Rank 0 sends one row to rank 1, which waits for two.
    const RowCounts counts = world.rank() == Rank{0}
                                 ? RowCounts{{1, 1}, {1, 1}}
                                 : RowCounts{{1, 1}, {2, 1}};
    return Caught([&] { exchange.Rows(Values({2, 3}, 1), counts); });
  });
  EXPECT_THAT(run.results, Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                         "AllToAllV")));
}

}  // namespace
}  // namespace muonshard
