// The facade's contract: construction on all ranks alike, the order of calls,
// views, bytes on the wire.

#include "optimizer/sharded_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/runtime/rank_tasks.h"
#include "testing/rank_harness.h"
#include "testing/sharded_case.h"
#include "testing/sharded_run.h"
#include "testing/small_case.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::FirstValuesOf;
using ::muonshard::testing::GradientOf;
using ::muonshard::testing::IsOk;
using ::muonshard::testing::ParameterBytes;
using ::muonshard::testing::RandomShardedCase;
using ::muonshard::testing::RunOnRanks;
using ::muonshard::testing::RunSharded;
using ::muonshard::testing::RuntimeCase;
using ::muonshard::testing::ShardedCase;
using ::muonshard::testing::ShardedRun;
using ::muonshard::testing::SmallCase;
using ::muonshard::testing::StatusIs;
using ::testing::Each;

using Change = std::function<void(ShardedCase&)>;

class ShardedOptimizerTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  // What `Create` returns on each of three ranks, of which rank 1 was given
  // something else.
  std::vector<absl::Status> CreateWithOneDifferent(const Change& change) {
    return RunOnRanks({.runtime = GetParam(), .size = 3},
                      [&](Collective& world) {
                        ShardedCase sharded = SmallCase();
                        if (world.rank() == Rank{1}) change(sharded);
                        absl::StatusOr<Mesh> mesh = Mesh::Parse(sharded.mesh);
                        if (!mesh.ok()) return mesh.status();
                        return ShardedOptimizer::Create(sharded.specs, *mesh,
                                                        world, sharded.options)
                            .status();
                      })
        .results;
  }

  // Runs `program` with an optimizer for SmallCase, bound to memory.
  std::vector<absl::Status> WithOptimizer(
      const std::function<absl::Status(Collective&, ShardedOptimizer&)>&
          program,
      const ShardedCase& sharded = SmallCase()) {
    const Mesh mesh = *Mesh::Parse(sharded.mesh);
    return RunOnRanks(
               {.runtime = GetParam(), .size = mesh.size()},
               [&](Collective& world) {
                 auto optimizer = ShardedOptimizer::Create(
                     sharded.specs, mesh, world, sharded.options);
                 if (!optimizer.ok()) return optimizer.status();
                 std::vector<ParameterBytes> memory;
                 for (size_t p = 0; p < sharded.specs.size(); ++p) {
                   memory.push_back(FirstValuesOf(sharded, mesh, world.rank(),
                                                  static_cast<int32_t>(p)));
                   const absl::Status s =
                       (*optimizer)
                           ->BindParameter(static_cast<int32_t>(p),
                                           memory.back().data());
                   if (!s.ok()) return s;
                 }
                 absl::Status s = program(world, **optimizer);
                 optimizer->reset();  // Before the memory it is bound to.
                 return s;
               })
        .results;
  }
};

TEST_P(ShardedOptimizerTest, EveryRankHearsTheFirstThingThatDiffers) {
  const std::vector<std::pair<Change, std::string>> differences = {
      {[](ShardedCase& s) { s.specs[1].name = "other"; }, "other"},
      {[](ShardedCase& s) { s.specs[2].shape = {301}; }, "301"},
      {[](ShardedCase& s) { s.specs[2].dtype = DataType::kBF16; }, "bf16"},
      {[](ShardedCase& s) { std::swap(s.specs[0], s.specs[1]); }, "proj"},
      {[](ShardedCase& s) { s.specs.pop_back(); }, "bias"},
      {[](ShardedCase& s) { s.options.muon.momentum = 0.5; }, "momentum"},
      {[](ShardedCase& s) { s.options.overlap = false; }, "overlap"},
      {[](ShardedCase& s) { s.options.gather = GatherMode::kEager; }, "gather"},
      {[](ShardedCase& s) { s.options.release_gradients = true; },
       "release_gradients"},
      {[](ShardedCase& s) { s.options.equality_check_interval = 7; },
       "equality_check_interval"},
      {[](ShardedCase& s) { s.options.plan.bucket_bytes_max = 7; },
       "bucket_bytes_max"},
      {[](ShardedCase& s) { s.mesh = "other=3"; }, "other"},
  };
  for (const auto& [change, text] : differences) {
    const std::vector<absl::Status> results = CreateWithOneDifferent(change);
    EXPECT_THAT(results,
                Each(StatusIs(absl::StatusCode::kFailedPrecondition, text)));
    EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                       "rank 0 has")));
    EXPECT_THAT(results, Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                       "rank 1 has")));
  }
}

TEST_P(ShardedOptimizerTest, WhatIsWrongOnOneRankFailsAllAndNamesTheRank) {
  const std::vector<std::pair<Change, std::string>> mistakes = {
      {[](ShardedCase& s) { s.specs[1].name = "qkv"; }, "\"qkv\""},
      {[](ShardedCase& s) {
         s.specs[0].blocks.sizes = {4, 4};
       },
       "blocks"},
      {[](ShardedCase& s) { s.options.muon.momentum = 1; }, "momentum"},
      {[](ShardedCase& s) { s.options.timeout = absl::ZeroDuration(); },
       "timeout"},
      {[](ShardedCase& s) { s.options.timeout = absl::InfiniteDuration(); },
       "timeout"},
      {[](ShardedCase& s) { s.options.adamw.epsilon = 1e-50; }, "epsilon"},
      {[](ShardedCase& s) { s.mesh = "data=4"; }, "4"},
      {[](ShardedCase& s) { s.specs[0].roles["tp"] = AxisRole::kShard; }, "tp"},
  };
  for (const auto& [change, text] : mistakes) {
    const std::vector<absl::Status> results = CreateWithOneDifferent(change);
    EXPECT_THAT(results,
                Each(StatusIs(absl::StatusCode::kInvalidArgument, text)));
    EXPECT_THAT(results,
                Each(StatusIs(absl::StatusCode::kInvalidArgument, "rank 1:")));
  }
}

TEST_P(ShardedOptimizerTest, CallsOutOfOrderAreRefusedAndLoseNothing) {
  const auto results = WithOptimizer([](Collective& world,
                                        ShardedOptimizer& optimizer) {
    const ShardedCase sharded = SmallCase();
    const auto refused = absl::StatusCode::kFailedPrecondition;
    const std::vector<float> gradient(32);
    EXPECT_THAT(optimizer.Finish(), StatusIs(refused, "BeginStep"));
    EXPECT_THAT(optimizer.Outcome(), StatusIs(refused, "Step"));
    EXPECT_THAT(optimizer.GradientReady(1, gradient.data(), 32, DataType::kF32),
                StatusIs(refused, "between BeginStep and Finish"));
    EXPECT_THAT(optimizer.BeginStep(0),
                StatusIs(absl::StatusCode::kInvalidArgument, "got 0"));
    absl::Status s = testing::TakeStep(sharded, world, 1, optimizer);
    if (!s.ok()) return s;
    std::vector<float> late(32);
    EXPECT_THAT(optimizer.BindParameter(1, late.data()),
                StatusIs(refused, "before the first BeginStep"));
    s = optimizer.BeginStep(1);
    if (!s.ok()) return s;
    EXPECT_THAT(optimizer.BeginStep(1), StatusIs(refused, "is not over"));
    for (int32_t p = 0; p < 3; ++p) {
      const ParameterBytes ready = GradientOf(sharded, world.rank(), p, 2, 0);
      s = optimizer.GradientReady(
          p, ready.data(), ElementCount(sharded.specs[static_cast<size_t>(p)]),
          DataType::kF32);
      if (!s.ok()) return s;
    }
    absl::StatusOr<ReducedGradients> reduced = optimizer.Finish();
    if (!reduced.ok()) return reduced.status();
    EXPECT_EQ(reduced->step(), 2);
    ReducedGradients moved = *std::move(reduced);
    EXPECT_FALSE(reduced->valid());
    EXPECT_THAT(optimizer.Step(*std::move(reduced), {}), StatusIs(refused));
    s = optimizer.Step(std::move(moved), {});
    return s.ok() ? optimizer.Synchronize() : s;
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(ShardedOptimizerTest, MicroBatchesDoNotChangeInMidStep) {
  ShardedCase sharded = SmallCase();
  sharded.steps = 1;
  const auto want = testing::RunUnsharded(sharded);
  ASSERT_THAT(want, IsOk());
  const auto results = WithOptimizer(
      [&](Collective& world, ShardedOptimizer& optimizer) {
        const auto expect_refused = [&] {
          EXPECT_THAT(optimizer.BeginStep(2),
                      StatusIs(absl::StatusCode::kFailedPrecondition,
                               "BeginStep of 2 micro-batches: step 1 of 1 is "
                               "not over"));
        };
        absl::Status s = optimizer.BeginStep(1);
        expect_refused();
        for (int32_t p = 0; p < 3 && s.ok(); ++p) {
          const ParameterBytes ready =
              GradientOf(sharded, world.rank(), p, 1, 0);
          s = optimizer.GradientReady(
              p, ready.data(),
              ElementCount(sharded.specs[static_cast<size_t>(p)]),
              DataType::kF32);
          expect_refused();
        }
        if (!s.ok()) return s;
        absl::StatusOr<ReducedGradients> reduced = optimizer.Finish();
        if (!reduced.ok()) return reduced.status();
        expect_refused();
        s = optimizer.Step(*std::move(reduced), {});
        if (s.ok()) s = optimizer.Synchronize();
        if (!s.ok()) return s;
        EXPECT_EQ(optimizer.Outcome()->gradient_norm,
                  want->outcomes[0].gradient_norm);
        return optimizer.BeginStep(2);
      },
      sharded);
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(ShardedOptimizerTest, AGradientBesideItsViewIsCopiedInAndCounted) {
  ShardedCase sharded = SmallCase();
  for (ParameterSpec& spec : sharded.specs) {
    spec.gradient_mode = GradientMode::kView;
  }
  // One bucket for all, so that no parameter of several pieces lies in one run.
  sharded.options.plan.bucket_bytes_max = 1 << 20;
  const auto results = WithOptimizer(
      [&](Collective& world, ShardedOptimizer& optimizer) {
        absl::Status s = optimizer.BeginStep(1);
        for (int32_t p = 0; p < 3 && s.ok(); ++p) {
          const ParameterBytes ready =
              GradientOf(sharded, world.rank(), p, 1, 0);
          s = optimizer.GradientReady(
              p, ready.data(),
              ElementCount(sharded.specs[static_cast<size_t>(p)]),
              DataType::kF32);
        }
        if (!s.ok()) return s;
        // A matrix of one unit lies in one run; the blocks of "qkv" and the
        // chunks of "bias" go to different owners.
        EXPECT_NE(optimizer.GradientView(1), nullptr);
        EXPECT_EQ(optimizer.GradientView(0), nullptr);
        EXPECT_EQ(optimizer.GradientView(2), nullptr);
        absl::StatusOr<ReducedGradients> reduced = optimizer.Finish();
        if (!reduced.ok()) return reduced.status();
        s = optimizer.Step(*std::move(reduced), {});
        if (s.ok()) s = optimizer.Synchronize();
        if (!s.ok()) return s;
        const auto statistics = optimizer.Statistics();
        if (!statistics.ok()) return statistics.status();
        EXPECT_EQ(statistics->view_misses, 1);
        return absl::OkStatus();
      },
      sharded);
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(ShardedOptimizerTest, AViewThatMovesBetweenMicroBatchesLosesNothing) {
  ShardedCase sharded = SmallCase();
  sharded.micro_batches = 2;
  sharded.steps = 1;
  for (ParameterSpec& spec : sharded.specs) {
    spec.gradient_mode = GradientMode::kView;
  }
  const auto want = testing::RunUnsharded(sharded);
  ASSERT_THAT(want, IsOk());
  const auto results = WithOptimizer(
      [&](Collective& world, ShardedOptimizer& optimizer) {
        absl::Status s = optimizer.BeginStep(2);
        for (int32_t p = 0; p < 3 && s.ok(); ++p) {
          const int64_t count =
              ElementCount(sharded.specs[static_cast<size_t>(p)]);
          ParameterBytes sum = GradientOf(sharded, world.rank(), p, 1, 0);
          // The first sum lies elsewhere; the second, too, at another place.
          s = optimizer.GradientReady(p, sum.data(), count, DataType::kF32);
          if (!s.ok()) return s;
          const ParameterBytes next =
              GradientOf(sharded, world.rank(), p, 1, 1);
          ParameterBytes moved = sum;
          auto* values = reinterpret_cast<float*>(moved.data());
          const auto* more = reinterpret_cast<const float*>(next.data());
          for (int64_t i = 0; i < count; ++i) values[i] += more[i];
          s = optimizer.GradientReady(p, moved.data(), count, DataType::kF32);
        }
        if (!s.ok()) return s;
        absl::StatusOr<ReducedGradients> reduced = optimizer.Finish();
        if (!reduced.ok()) return reduced.status();
        s = optimizer.Step(*std::move(reduced), {});
        if (s.ok()) s = optimizer.Synchronize();
        if (!s.ok()) return s;
        EXPECT_EQ(optimizer.Outcome()->gradient_norm,
                  want->outcomes[0].gradient_norm);
        return absl::OkStatus();
      },
      sharded);
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(ShardedOptimizerTest, SeveralTasksMayCheckInAtOnce) {
  const ShardedCase sharded = SmallCase();
  const auto want = testing::RunUnsharded(sharded);
  ASSERT_THAT(want, IsOk());
  const auto results = WithOptimizer([&](Collective& world,
                                         ShardedOptimizer& optimizer) {
    for (int64_t step = 1; step <= sharded.steps; ++step) {
      absl::Status s = optimizer.BeginStep(1);
      if (!s.ok()) return s;
      const auto checked_in = RunRanks(world.runtime(), 3, [&](Rank task) {
        const int32_t p = ToInt(task);
        const ParameterBytes ready =
            GradientOf(sharded, world.rank(), p, step, 0);
        return optimizer.GradientReady(
            p, ready.data(),
            ElementCount(sharded.specs[static_cast<size_t>(p)]),
            DataType::kF32);
      });
      EXPECT_THAT(checked_in, Each(IsOk()));
      absl::StatusOr<ReducedGradients> reduced = optimizer.Finish();
      if (!reduced.ok()) return reduced.status();
      s = optimizer.Step(*std::move(reduced), {});
      if (s.ok()) s = optimizer.Synchronize();
      if (!s.ok()) return s;
      EXPECT_EQ(optimizer.Outcome()->gradient_norm,
                want->outcomes[static_cast<size_t>(step - 1)].gradient_norm);
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

// For every rank r and bucket of P elements over N ranks of which r has P_r:
// s_g (P - P_r) to reduce and s_p (N - 1) P_r to gather.
TEST_P(ShardedOptimizerTest, BytesOnTheWireEqualTheFormulas) {
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    ShardedCase sharded = RandomShardedCase(seed);
    sharded.mesh = seed % 2 == 0 ? "data=4" : "data=5";
    sharded.hosts.clear();
    sharded.overflows.clear();
    sharded.has_gradient = nullptr;
    for (ParameterSpec& spec : sharded.specs) {
      spec.roles.clear();
      spec.coordinates.clear();
      spec.blockwise = false;
    }
    sharded.steps = 3;
    const ShardedRun run = RunSharded(sharded, GetParam());
    ASSERT_THAT(run.results, Each(IsOk()));
    const Mesh mesh = *Mesh::Parse(sharded.mesh);
    const auto plan =
        Plan::Create(sharded.specs, mesh,
                     HostMap::FromHostIds(std::vector<std::string>(
                         static_cast<size_t>(mesh.size()), "host")),
                     sharded.options);
    ASSERT_THAT(plan, IsOk());
    for (size_t r = 0; r < run.statistics.size(); ++r) {
      int64_t want = 0;
      for (const Bucket& bucket : plan->buckets) {
        const BucketClass& bucket_class =
            plan->classes[static_cast<size_t>(bucket.bucket_class)];
        const auto gradient_bytes =
            static_cast<int64_t>(ByteWidth(bucket_class.gradient_dtype));
        const auto parameter_bytes =
            static_cast<int64_t>(ByteWidth(bucket_class.parameter_dtype));
        const int64_t own = bucket.segments[r].count;
        want += gradient_bytes * (bucket.count - own) +
                parameter_bytes * (mesh.size() - 1) * own;
      }
      EXPECT_EQ(run.statistics[r].bucket_bytes_sent,
                static_cast<uint64_t>(sharded.steps * want))
          << "seed " << seed << ", rank " << r;
      EXPECT_EQ(
          plan->rank_load[r].reduce_bytes + plan->rank_load[r].gather_bytes,
          want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, ShardedOptimizerTest,
                         ::testing::ValuesIn(testing::BothRuntimes(3)),
                         testing::RuntimeCaseName);

}  // namespace
}  // namespace muonshard
