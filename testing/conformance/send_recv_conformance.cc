// Send and Recv: messages between two ranks, in order.

#include <gmock/gmock.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

// From the first rank to the last; the others do nothing.
Exchange MessageExchange(size_t ranks, DataType type, int64_t count,
                         uint64_t seed) {
  const size_t receiver = ranks - 1;
  Exchange exchange;
  exchange.name = absl::StrCat(count, " ", DataTypeName(type));
  exchange.in.resize(ranks);
  exchange.out.resize(ranks);
  exchange.in[0] = Elements::RandomBits(type, count, seed);
  exchange.out[receiver] = Elements(type, count);
  exchange.want = exchange.out;
  exchange.want[receiver] = exchange.in[0];
  exchange.call = [receiver](Collective& group, const Elements& in,
                             Elements& out) -> absl::StatusOr<Work> {
    const size_t rank = IndexOf(group.rank());
    if (rank == 0) {
      return group.Send(in.in(), Rank{static_cast<int32_t>(receiver)});
    }
    return rank == receiver ? group.Recv(out.out(), Rank{0}) : Work();
  };
  return exchange;
}

std::vector<Exchange> Messages(size_t ranks, const Capabilities& promises) {
  std::vector<Exchange> exchanges;
  for (const DataType type : PromisedDataTypes(promises)) {
    for (const int64_t count :
         {int64_t{0}, int64_t{1}, int64_t{97}, LargeCount(type)}) {
      exchanges.push_back(
          MessageExchange(ranks, type, count, Seed(11, exchanges.size())));
    }
  }
  return exchanges;
}

TEST_P(PeerConformance, RecvGetsTheBitsThatWereSent) {
  ExpectExchanges(Messages(ranks(), Promises()));
}

TEST_P(PeerConformance, MessagesArriveInTheOrderSent) {
  std::vector<Exchange> exchanges;
  for (uint64_t i = 0; i < 12; ++i) {
    exchanges.push_back(MessageExchange(ranks(), DataType::kI32, 5, i));
  }
  ExpectExchanges(std::move(exchanges), Pace::kAllAtOnce);
}

// A token goes round, and each rank adds its number.
TEST_P(PeerConformance, ATokenGoesRoundTheRanks) {
  std::vector<int64_t> seen(ranks(), -1);
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    const int32_t rank = ToInt(world.rank());
    const Rank next{(rank + 1) % size()};
    const Rank previous{(rank + size() - 1) % size()};
    int64_t token = 0;
    const auto receive = [&] {
      return Finish(
          world, world.Recv(MutableBuffer::Of(std::span(&token, 1)), previous));
    };
    if (rank > 0) {
      if (absl::Status s = receive(); !s.ok()) return s;
      token += rank;
    }
    const int64_t sent = token;
    if (absl::Status s = Finish(
            world, world.Send(ConstBuffer::Of(std::span(&sent, 1)), next));
        !s.ok()) {
      return s;
    }
    if (rank == 0) {
      if (absl::Status s = receive(); !s.ok()) return s;
    }
    seen[IndexOf(world.rank())] = token;
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(IsOk()));
  for (int64_t rank = 1; rank < size(); ++rank) {
    EXPECT_EQ(seen[static_cast<size_t>(rank)], rank * (rank + 1) / 2);
  }
  EXPECT_EQ(seen[0], size() * (size() - 1) / 2);
}

// A message takes its place in the order of its two ranks alone.
TEST_P(PeerConformance, MessagesMixWithOperationsOfAllRanks) {
  std::vector<Exchange> exchanges;
  for (uint64_t i = 0; i < 4; ++i) {
    exchanges.push_back(MessageExchange(ranks(), DataType::kF32, 7, i));
    Exchange barrier;
    barrier.name = "barrier";
    barrier.in.resize(ranks());
    barrier.out.resize(ranks());
    barrier.want.resize(ranks());
    barrier.call = [](Collective& group, const Elements&, Elements&) {
      return group.Barrier();
    };
    exchanges.push_back(std::move(barrier));
  }
  ExpectExchanges(std::move(exchanges), Pace::kAllAtOnce);
}

}  // namespace
}  // namespace muonshard::testing
