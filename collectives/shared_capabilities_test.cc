#include "collectives/shared_capabilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/sim_runtime.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;
using ::testing::Each;

muonshard_caps AllCaps() {
  muonshard_caps caps = {};
  caps.header.size = MUONSHARD_END(muonshard_caps, reserved);
  caps.operations = caps.data_types = caps.reductions = caps.features =
      ~uint64_t{0};
  return caps;
}

// The capabilities that each rank learns, where rank r has `caps[r]`.
std::vector<Capabilities> Exchange(Runtime& runtime, Store& store,
                                   const std::vector<muonshard_caps>& caps) {
  const auto size = static_cast<int32_t>(caps.size());
  std::vector<Capabilities> learned(caps.size());
  EXPECT_THAT(RunRanks(runtime, size,
                       [&](Rank rank) -> absl::Status {
                         const auto r = static_cast<size_t>(ToInt(rank));
                         const auto shared =
                             SharedCapabilities(caps[r], store, "world", rank,
                                                size, absl::InfiniteFuture());
                         if (!shared.ok()) return shared.status();
                         learned[r] = *shared;
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
  return learned;
}

class SharedCapabilitiesTest : public ::testing::Test {
 protected:
  void Simulate(const std::function<void(Store&)>& test) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      sim_ = SimRuntime::Create({.seed = seed});
      EXPECT_THAT(sim_->Run([&] { test(*NewInProcessStore(*sim_)); }), IsOk());
    }
  }

  std::unique_ptr<SimRuntime> sim_;
};

TEST_F(SharedCapabilitiesTest, EveryFeatureHasItsField) {
  Simulate([&](Store& store) {
    const auto one = [&](uint64_t feature) {
      muonshard_caps caps = AllCaps();
      caps.features = feature;
      return Exchange(*sim_, store, {caps}).front();
    };
    EXPECT_TRUE(one(MUONSHARD_FEATURE_CANONICAL).canonical);
    EXPECT_TRUE(one(MUONSHARD_FEATURE_REPEATABLE).repeatable);
    EXPECT_TRUE(one(MUONSHARD_FEATURE_MISMATCH_DETECTED).mismatch_detected);
    EXPECT_TRUE(one(MUONSHARD_FEATURE_DEADLOCK_DETECTED).deadlock_detected);
    EXPECT_TRUE(one(MUONSHARD_FEATURE_SPLIT).split);
    EXPECT_TRUE(one(MUONSHARD_FEATURE_WINDOW).window);
    EXPECT_TRUE(one(MUONSHARD_FEATURE_EXACT_COUNTERS).exact_counters);
    const Capabilities none = one(0);
    EXPECT_FALSE(none.canonical || none.repeatable || none.mismatch_detected ||
                 none.deadlock_detected || none.split || none.window ||
                 none.exact_counters);
  });
}

TEST_F(SharedCapabilitiesTest, WhatOneRankLacksTheGroupLacks) {
  Simulate([&](Store& store) {
    std::vector<muonshard_caps> caps(4, AllCaps());
    caps[0].operations &= ~(uint64_t{1} << MUONSHARD_SEND);
    caps[1].data_types &= ~(uint64_t{1} << MUONSHARD_F16);
    caps[2].reductions &= ~(uint64_t{1} << MUONSHARD_MIN);
    caps[3].features &= ~uint64_t{MUONSHARD_FEATURE_CANONICAL};
    for (const Capabilities& shared : Exchange(*sim_, store, caps)) {
      EXPECT_EQ(shared.operations, caps[0].operations);
      EXPECT_EQ(shared.data_types, caps[1].data_types);
      EXPECT_EQ(shared.reductions, caps[2].reductions);
      EXPECT_FALSE(shared.canonical);
      EXPECT_TRUE(shared.split);
    }
  });
}

TEST_F(SharedCapabilitiesTest, ALaterGroupOfTheSameNameDoesNotReadTheFormer) {
  Simulate([&](Store& store) {
    std::vector<muonshard_caps> caps(3, AllCaps());
    for (const bool split : {true, false, true}) {
      caps[2].features = split ? ~uint64_t{0} : 0;
      for (const Capabilities& shared : Exchange(*sim_, store, caps)) {
        EXPECT_EQ(shared.split, split);
      }
    }
  });
}

TEST_F(SharedCapabilitiesTest, ARankThatDoesNotComeIsADeadlineThatNamesIt) {
  Simulate([&](Store& store) {
    const auto deadline = sim_->Now() + absl::Seconds(1);
    EXPECT_THAT(
        SharedCapabilities(AllCaps(), store, "world", Rank{0}, 2, deadline),
        StatusIs(absl::StatusCode::kDeadlineExceeded,
                 "group \"world\": rank 1 did not share"));
    // One that waits for another one's sum knows whom that one waits for.
    EXPECT_THAT(
        SharedCapabilities(AllCaps(), store, "other", Rank{1}, 4, deadline),
        StatusIs(absl::StatusCode::kDeadlineExceeded,
                 "group \"other\": rank 0, rank 2, rank 3 did not share"));
  });
}

TEST_F(SharedCapabilitiesTest, WhatIsNoCapabilitiesIsDataLoss) {
  Simulate([&](Store& store) {
    for (const std::string text : {"1 2 3", "1 2 3 four", ""}) {
      const std::string group = "world" + std::to_string(text.size());
      EXPECT_THAT(store.Put(group + "/capabilities/1/shared", text), IsOk());
      EXPECT_THAT(SharedCapabilities(AllCaps(), store, group, Rank{1}, 2,
                                     absl::InfiniteFuture()),
                  StatusIs(absl::StatusCode::kDataLoss, text));
    }
  });
}

TEST_F(SharedCapabilitiesTest, AStoreThatRefusesIsAnError) {
  Simulate([&](Store& store) {
    EXPECT_THAT(SharedCapabilities(AllCaps(), store, "a b", Rank{0}, 2,
                                   absl::InfiniteFuture()),
                StatusIs(absl::StatusCode::kInvalidArgument));
  });
}

}  // namespace
}  // namespace muonshard
