// Ordering: behind ready events, within a group, and not between groups.

#include <gmock/gmock.h>

#include <memory>
#include <utility>
#include <vector>

#include "collectives/runtime/stream.h"
#include "testing/conformance/canonical_reduction.h"
#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

constexpr int64_t kCount = 97;

std::vector<Elements> Inputs(size_t ranks, uint64_t seed) {
  return Contributions(&Elements::SmallIntegers, ranks, DataType::kF32, kCount,
                       seed);
}

TEST_P(CollectiveConformance, DataThatAStreamWritesLateIsSeen) {
  const std::vector<Elements> in = Inputs(ranks(), 20);
  std::vector<Elements> out(ranks(), Elements(DataType::kF32, kCount));
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const size_t rank = IndexOf(world.rank());
    Elements data(DataType::kF32, kCount);
    EventSource gate(world.runtime());
    Stream stream(world.runtime(), "producer");
    stream.WaitFor(gate.event());
    stream.Enqueue([&](absl::Status upstream) {
      data.Overwrite(0, in[rank]);
      return upstream;
    });
    const absl::StatusOr<Work> work =
        world.AllReduce(data.in(), out[rank].out(), Reduction::Sum(),
                        {.ready = {stream.Record()}});
    gate.Complete(absl::OkStatus());
    return Finish(world, work);
  });
  EXPECT_THAT(results, Each(IsOk()));
  for (const Elements& sum : out) {
    EXPECT_TRUE(HasBitsOf(sum, CanonicalReduction(in, Reduction::Sum())));
  }
}

TEST_P(CollectiveConformance, AllOfSeveralReadyEventsAreWaitedFor) {
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    EventSource first(world.runtime());
    EventSource second(world.runtime());
    const absl::StatusOr<Work> work =
        world.Barrier({.ready = {first.event(), Event(), second.event()}});
    if (!work.ok()) return work.status();
    second.Complete(absl::OkStatus());
    world.runtime().Yield();
    EXPECT_FALSE(work->done());
    first.Complete(absl::OkStatus());
    return Finish(world, work);
  });
  EXPECT_THAT(results, Each(IsOk()));
}

// The last rank is late; the others have posted when it looks at its output.
TEST_P(PeerConformance, AnOutputIsNotWrittenBeforeItIsReady) {
  const Elements sent = Elements::RandomBits(DataType::kI32, kCount, 21);
  const Elements unwritten(DataType::kI32, kCount);
  std::vector<Elements> out(ranks(), unwritten);
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    Collective& world = *context.world;
    absl::StatusOr<std::unique_ptr<Collective>> other = NewSecondGroup(context);
    if (!other.ok()) return other.status();
    const size_t rank = IndexOf(context.rank);
    const bool is_root = context.rank == Rank{0};
    const bool is_late = context.rank == last();
    EventSource gate(context.runtime);
    const absl::StatusOr<Work> work =
        world.Broadcast(is_root ? sent.in() : sent.in(0, 0), out[rank].out(),
                        Rank{0}, {.ready = {is_late ? gate.event() : Event()}});
    if (absl::Status s = Finish(**other, (*other)->Barrier()); !s.ok()) {
      return s;
    }
    if (is_late) {
      EXPECT_TRUE(HasBitsOf(out[rank], unwritten));
    }
    gate.Complete(absl::OkStatus());
    if (absl::Status s = Finish(world, work); !s.ok()) return s;
    return Finish(**other, (*other)->Barrier());
  });
  EXPECT_THAT(results, Each(IsOk()));
  for (const Elements& received : out) {
    EXPECT_TRUE(HasBitsOf(received, sent));
  }
}

TEST_P(CollectiveConformance, AStreamBehindAWorkSeesItsOutput) {
  const std::vector<Elements> in = Inputs(ranks(), 22);
  std::vector<Elements> seen(ranks());
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const size_t rank = IndexOf(world.rank());
    Elements out(DataType::kF32, kCount);
    EventSource gate(world.runtime());
    const absl::StatusOr<Work> work = world.AllReduce(
        in[rank].in(), out.out(), Reduction::Sum(), {.ready = {gate.event()}});
    if (!work.ok()) return work.status();
    Stream stream(world.runtime(), "consumer");
    stream.WaitFor(work->event());
    stream.Enqueue([&](absl::Status upstream) {
      seen[rank] = out;
      return upstream;
    });
    gate.Complete(absl::OkStatus());
    return stream.Synchronize(GuardDeadline(world.runtime()));
  });
  EXPECT_THAT(results, Each(IsOk()));
  for (const Elements& sum : seen) {
    EXPECT_TRUE(HasBitsOf(sum, CanonicalReduction(in, Reduction::Sum())));
  }
}

// Each doubles what the one before it left.
TEST_P(CollectiveConformance, EachCallSeesWhatTheOneBeforeItWrote) {
  constexpr int kCalls = 6;
  std::vector<int64_t> values(ranks(), 1);
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    int64_t& value = values[IndexOf(world.rank())];
    absl::StatusOr<Work> work;
    for (int i = 0; i < kCalls; ++i) {
      work = world.AllReduce(
          ConstBuffer::Of(std::span<const int64_t>(&value, 1)),
          MutableBuffer::Of(std::span(&value, 1)), Reduction::Sum());
      if (!work.ok()) return work.status();
    }
    return Finish(world, work);
  });
  EXPECT_THAT(results, Each(IsOk()));
  int64_t expected = 1;
  for (int i = 0; i < kCalls; ++i) expected *= size();
  EXPECT_THAT(values, Each(expected));
}

TEST_P(CollectiveConformance, WorksOfAGroupEndInOrder) {
  constexpr size_t kCalls = 8;
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    EventSource gate(world.runtime());
    std::vector<Work> works;
    for (size_t i = 0; i < kCalls; ++i) {
      const absl::StatusOr<Work> work =
          world.Barrier({.ready = {i == 0 ? gate.event() : Event()}});
      if (!work.ok()) return work.status();
      works.push_back(*work);
    }
    // The first is held back, and so are those behind it.
    for (const Work& work : works) EXPECT_FALSE(work.done());
    gate.Complete(absl::OkStatus());
    for (size_t i = kCalls; i > 0; i /= 2) {
      if (absl::Status s = works[i - 1].Wait(GuardDeadline(world.runtime()));
          !s.ok()) {
        return s;
      }
      for (size_t before = 0; before < i; ++before) {
        EXPECT_TRUE(works[before].done());
      }
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, ManyCallsInFlightKeepTheirResultsApart) {
  std::vector<Exchange> exchanges;
  for (uint64_t i = 0; i < 24; ++i) {
    Exchange exchange;
    exchange.name = "call " + std::to_string(i);
    exchange.in = Inputs(ranks(), Seed(23, i));
    exchange.out.assign(ranks(), Elements(DataType::kF32, kCount));
    exchange.want.assign(ranks(),
                         CanonicalReduction(exchange.in, Reduction::Sum()));
    exchange.call = [](Collective& group, const Elements& in, Elements& out) {
      return group.AllReduce(in.in(), out.out(), Reduction::Sum());
    };
    exchanges.push_back(std::move(exchange));
  }
  ExpectExchanges(std::move(exchanges), Pace::kAllAtOnce);
}

TEST_P(PeerConformance, RanksMayPostToTwoGroupsInOppositeOrders) {
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    absl::StatusOr<std::unique_ptr<Collective>> other = NewSecondGroup(context);
    if (!other.ok()) return other.status();
    Collective* first = context.world.get();
    Collective* second = other->get();
    if (context.rank == Rank{0}) std::swap(first, second);
    const absl::StatusOr<Work> of_first = first->Barrier();
    const absl::StatusOr<Work> of_second = second->Barrier();
    if (absl::Status s = Finish(*second, of_second); !s.ok()) return s;
    if (absl::Status s = Finish(*first, of_first); !s.ok()) return s;
    return Finish(*context.world, context.world->Barrier());
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(PeerConformance, AGroupThatWaitsForARankDoesNotHoldAnotherUp) {
  const auto results = OnEveryRank([&](RankContext& context) -> absl::Status {
    Collective& world = *context.world;
    absl::StatusOr<std::unique_ptr<Collective>> other = NewSecondGroup(context);
    if (!other.ok()) return other.status();
    const bool is_late = context.rank == last();
    absl::StatusOr<Work> held;
    if (!is_late) held = world.Barrier();
    if (absl::Status s = Finish(**other, (*other)->Barrier()); !s.ok()) {
      return s;
    }
    if (is_late) {
      held = world.Barrier();
    }
    if (absl::Status s = Finish(world, held); !s.ok()) return s;
    return Finish(**other, (*other)->Barrier());
  });
  EXPECT_THAT(results, Each(IsOk()));
}

}  // namespace
}  // namespace muonshard::testing
