// The shares of a group's operations, handed out one by one: two ranks on a
// fake host.

#include "plugins/loopback/group.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/loopback/fake_host.h"

namespace muonshard::loopback {
namespace {

class GroupTest : public ::testing::Test {
 protected:
  GroupTest() {
    const auto laboratory =
        std::make_shared<Laboratory>(std::vector<Fault>{}, /*checks=*/false);
    const HostLock lock(domain_->mutex());
    for (int32_t rank = 0; rank < 2; ++rank) {
      // No operation is small enough to be run as a whole.
      communicators_.push_back(std::make_shared<Communicator>(
          domain_, group_,
          Communicator::Identity{.rank = rank,
                                 .program_rank = rank,
                                 .options = {.small_bytes = 0},
                                 .laboratory = laboratory}));
      EXPECT_TRUE(group_->Enter(communicators_.back().get()).ok());
    }
  }

  ~GroupTest() override {
    HostLock lock(domain_->mutex());
    for (const auto& communicator : communicators_) communicator->Leave(lock);
  }

  // Posts a reduce-scatter of one element for each rank, on both.
  void PostReduceScatter() {
    for (size_t rank = 0; rank < 2; ++rank) {
      Call call;
      call.kind = MUONSHARD_REDUCE_SCATTER_V;
      call.reduction = {.data_type = MUONSHARD_F32, .kind = MUONSHARD_SUM};
      call.in = reinterpret_cast<const std::byte*>(in_);
      call.in_count = 2;
      call.out = reinterpret_cast<std::byte*>(&out_[rank]);
      call.out_count = 1;
      call.in_segments = {{.first = 0, .count = 1}, {.first = 1, .count = 1}};
      works_.push_back(std::make_shared<Work>(communicators_[rank], call,
                                              /*producers=*/0, Fate{}));
      group_->Post(works_.back());
    }
  }

  FakeHost fake_;
  const std::shared_ptr<Domain> domain_ =
      std::make_shared<Domain>(*fake_.host());
  const std::shared_ptr<Group> group_ =
      std::make_shared<Group>(domain_, "pair", 2);
  std::vector<std::shared_ptr<Communicator>> communicators_;
  std::vector<std::shared_ptr<Work>> works_;
  const float in_[2] = {3, 4};
  float out_[2] = {0, 0};
};

TEST_F(GroupTest, WhoeverWaitsRunsItsOwnShareAndThenThoseOfOthers) {
  for (const int32_t own : {0, 1}) {
    const auto mine = static_cast<size_t>(own);
    out_[0] = out_[1] = 0;
    HostLock lock(domain_->mutex());
    communicators_[mine]->WaitBegins();
    PostReduceScatter();
    EXPECT_TRUE(group_->HasUnclaimedShares());
    EXPECT_TRUE(group_->RunOneShare(lock, own));
    EXPECT_EQ(out_[mine], 2 * in_[mine]);
    EXPECT_EQ(out_[1 - mine], 0) << "the share of the other";
    EXPECT_FALSE(works_.back()->ended);
    EXPECT_TRUE(group_->RunOneShare(lock, own));
    EXPECT_EQ(out_[1 - mine], 2 * in_[1 - mine]);
    EXPECT_TRUE(works_.back()->ended);
    EXPECT_FALSE(group_->RunOneShare(lock, own));
    communicators_[mine]->WaitEnds();
  }
}

}  // namespace
}  // namespace muonshard::loopback
