// Schedules of all ranks together, run in memory: what arrives is what was
// sent, and results are canonical.

#include "plugins/ucx/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/support/reduce.h"

namespace muonshard::ucx {
namespace {

using plugins::Call;
using plugins::Segment;

// Pieces of two elements, of which three have room at a time.
constexpr ScheduleOptions kSmallPieces = {
    .direct_bytes_max = 12, .piece_bytes = 8, .pieces_at_once = 3};

std::vector<Segment> Packed(const std::vector<uint64_t>& counts) {
  std::vector<Segment> segments;
  uint64_t first = 0;
  for (const uint64_t count : counts) {
    segments.push_back({first, count});
    first += count;
  }
  return segments;
}

// The ranks of a group, each with an input, an output and a schedule.
class Ranks {
 public:
  // `call_of(rank)` without buffers, of i32 sums; inputs hold 1000 * rank + i.
  template <typename CallOf>
  Ranks(int32_t size, const ScheduleOptions& options, CallOf call_of)
      : size_(size) {
    for (int32_t rank = 0; rank < size; ++rank) {
      Call call = call_of(rank);
      call.reduction = {.data_type = MUONSHARD_I32, .kind = MUONSHARD_SUM};
      std::vector<int32_t> in(call.in_count);
      std::iota(in.begin(), in.end(), 1000 * rank);
      ins_.push_back(in);
      outs_.emplace_back(call.out_count, -1);
      calls_.push_back(call);
      schedules_.push_back(MakeSchedule(call, rank, size, options));
      scratch_.emplace_back(schedules_.back().scratch_bytes);
    }
  }

  void Run() {
    size_t rounds = 0;
    for (const Schedule& schedule : schedules_) {
      rounds = std::max(rounds, schedule.rounds.size());
    }
    for (size_t round = 0; round < rounds; ++round) RunRound(round);
  }

  // From every rank to every other in the first round.
  void ExpectAllHearOfAll() const {
    for (int32_t rank = 0; rank < size_; ++rank) {
      std::vector<int> sent(static_cast<size_t>(size_));
      std::vector<int> received(static_cast<size_t>(size_));
      const Round& first = schedules_[At(rank)].rounds.front();
      for (const Send& send : first.sends) ++sent[At(send.peer)];
      for (const Receive& receive : first.receives) {
        ++received[At(receive.peer)];
      }
      for (int32_t peer = 0; peer < size_; ++peer) {
        EXPECT_EQ(sent[At(peer)] > 0, peer != rank);
        EXPECT_EQ(received[At(peer)] > 0, peer != rank);
      }
    }
  }

  const std::vector<int32_t>& in(int32_t rank) const { return ins_[At(rank)]; }
  const std::vector<int32_t>& out(int32_t rank) const {
    return outs_[At(rank)];
  }
  uint64_t scratch_bytes(int32_t rank) const {
    return schedules_[At(rank)].scratch_bytes;
  }

 private:
  static size_t At(int32_t rank) { return static_cast<size_t>(rank); }

  std::byte* Memory(int32_t rank, const Piece& piece) {
    std::byte* const begins[] = {
        reinterpret_cast<std::byte*>(ins_[At(rank)].data()),
        reinterpret_cast<std::byte*>(outs_[At(rank)].data()),
        scratch_[At(rank)].data()};
    const uint64_t sizes[] = {ins_[At(rank)].size() * 4,
                              outs_[At(rank)].size() * 4,
                              scratch_[At(rank)].size()};
    const auto space = static_cast<size_t>(piece.space);
    EXPECT_LE(piece.offset + piece.bytes, sizes[space]);
    return begins[space] + piece.offset;
  }

  void RunRound(size_t index) {
    std::map<std::tuple<int32_t, int32_t, uint32_t>, std::vector<std::byte>>
        sent;
    for (int32_t rank = 0; rank < size_; ++rank) {
      if (index >= schedules_[At(rank)].rounds.size()) continue;
      const Round& round = schedules_[At(rank)].rounds[index];
      for (const Copy& copy : round.copies) {
        std::memmove(Memory(rank, copy.to), Memory(rank, copy.from),
                     copy.to.bytes);
      }
      for (const Send& send : round.sends) {
        const std::byte* const from = Memory(rank, send.from);
        const auto [at, is_new] = sent.try_emplace(
            {rank, send.peer, send.number}, from, from + send.from.bytes);
        EXPECT_TRUE(is_new) << "two messages of one number";
      }
    }
    for (int32_t rank = 0; rank < size_; ++rank) {
      if (index >= schedules_[At(rank)].rounds.size()) continue;
      ReceiveAndFold(rank, schedules_[At(rank)].rounds[index], &sent);
    }
    EXPECT_TRUE(sent.empty()) << "what is sent is received";
  }

  // Folds as late as they may come: each receive first lets that fold happen
  // which frees its room.
  void ReceiveAndFold(int32_t rank, const Round& round,
                      std::map<std::tuple<int32_t, int32_t, uint32_t>,
                               std::vector<std::byte>>* sent) {
    std::vector<bool> folded(round.folds.size());
    const auto fold = [&](size_t index) {
      if (folded[index]) return;
      folded[index] = true;
      std::vector<const std::byte*> contributions;
      for (const Piece& piece : round.folds[index].contributions) {
        contributions.push_back(Memory(rank, piece));
      }
      plugins::Reduce(calls_[At(rank)].reduction, contributions,
                      round.folds[index].count,
                      Memory(rank, round.folds[index].to));
    };
    for (const Receive& receive : round.receives) {
      if (receive.after_fold >= 0) {
        fold(static_cast<size_t>(receive.after_fold));
      }
      const auto found = sent->find({receive.peer, rank, receive.number});
      ASSERT_NE(found, sent->end()) << "nobody sends it";
      ASSERT_EQ(found->second.size(), receive.to.bytes);
      std::memcpy(Memory(rank, receive.to), found->second.data(),
                  receive.to.bytes);
      sent->erase(found);
    }
    for (size_t i = 0; i < round.folds.size(); ++i) fold(i);
  }

  const int32_t size_;
  std::vector<Call> calls_;
  std::vector<Schedule> schedules_;
  std::vector<std::vector<int32_t>> ins_;
  std::vector<std::vector<int32_t>> outs_;
  std::vector<std::vector<std::byte>> scratch_;
};

int32_t SumOfRanks(int32_t size, uint64_t index) {
  return 1000 * size * (size - 1) / 2 + size * static_cast<int32_t>(index);
}

TEST(ScheduleTest, AllReduceSumsWholeAndInShares) {
  for (int32_t size = 1; size <= 5; ++size) {
    // 0 to 3 elements go to every rank whole.
    for (uint64_t count = 0; count < 40; ++count) {
      Ranks ranks(size, kSmallPieces, [&](int32_t) {
        return Call{.kind = MUONSHARD_ALL_REDUCE,
                    .in_count = count,
                    .out_count = count};
      });
      ranks.ExpectAllHearOfAll();
      ranks.Run();
      for (int32_t rank = 0; rank < size; ++rank) {
        for (uint64_t i = 0; i < count; ++i) {
          ASSERT_EQ(ranks.out(rank)[i], SumOfRanks(size, i));
        }
      }
    }
  }
}

TEST(ScheduleTest, ReduceScatterGivesEachRankItsSegment) {
  const std::vector<uint64_t> counts = {5, 0, 19, 1};
  Ranks ranks(4, kSmallPieces, [&](int32_t rank) {
    return Call{.kind = MUONSHARD_REDUCE_SCATTER_V,
                .in_count = 25,
                .out_count = counts[static_cast<size_t>(rank)],
                .in_segments = Packed(counts)};
  });
  ranks.ExpectAllHearOfAll();
  ranks.Run();
  for (int32_t rank = 0; rank < 4; ++rank) {
    const Segment own = Packed(counts)[static_cast<size_t>(rank)];
    for (uint64_t i = 0; i < own.count; ++i) {
      EXPECT_EQ(ranks.out(rank)[i], SumOfRanks(4, own.first + i));
    }
  }
  // Room for three pieces of each of three peers, whatever arrives.
  EXPECT_EQ(ranks.scratch_bytes(2),
            kSmallPieces.pieces_at_once * 3 * kSmallPieces.piece_bytes);
}

TEST(ScheduleTest, AllGatherGivesAllSegmentsToAll) {
  const std::vector<uint64_t> counts = {5, 0, 19, 1};
  Ranks ranks(4, kSmallPieces, [&](int32_t rank) {
    return Call{.kind = MUONSHARD_ALL_GATHER_V,
                .in_count = counts[static_cast<size_t>(rank)],
                .out_count = 25,
                .out_segments = Packed(counts)};
  });
  ranks.ExpectAllHearOfAll();
  ranks.Run();
  for (int32_t rank = 0; rank < 4; ++rank) {
    size_t next = 0;
    for (int32_t from = 0; from < 4; ++from) {
      for (const int32_t element : ranks.in(from)) {
        EXPECT_EQ(ranks.out(rank)[next++], element);
      }
    }
    EXPECT_EQ(next, ranks.out(rank).size());
  }
}

TEST(ScheduleTest, AllToAllGivesEachRankItsPart) {
  // From rank s to rank d.
  const auto count = [](int32_t s, int32_t d) {
    return static_cast<uint64_t>((3 * s + d) % 4);
  };
  Ranks ranks(3, kSmallPieces, [&](int32_t rank) {
    std::vector<uint64_t> in;
    std::vector<uint64_t> out;
    for (int32_t peer = 0; peer < 3; ++peer) {
      in.push_back(count(rank, peer));
      out.push_back(count(peer, rank));
    }
    return Call{
        .kind = MUONSHARD_ALL_TO_ALL_V,
        .in_count = std::accumulate(in.begin(), in.end(), uint64_t{0}),
        .out_count = std::accumulate(out.begin(), out.end(), uint64_t{0}),
        .in_segments = Packed(in),
        .out_segments = Packed(out)};
  });
  ranks.ExpectAllHearOfAll();
  ranks.Run();
  for (int32_t d = 0; d < 3; ++d) {
    size_t next = 0;
    for (int32_t s = 0; s < 3; ++s) {
      uint64_t first = 0;
      for (int32_t before = 0; before < d; ++before) first += count(s, before);
      for (uint64_t i = 0; i < count(s, d); ++i) {
        EXPECT_EQ(ranks.out(d)[next++], ranks.in(s)[first + i]);
      }
    }
  }
}

TEST(ScheduleTest, ReduceAndBroadcastHaveARoot) {
  for (int32_t root = 0; root < 3; ++root) {
    Ranks reduced(3, kSmallPieces, [&](int32_t rank) {
      return Call{.kind = MUONSHARD_REDUCE,
                  .root = root,
                  .in_count = 7,
                  .out_count = rank == root ? 7u : 0u};
    });
    reduced.ExpectAllHearOfAll();
    reduced.Run();
    for (uint64_t i = 0; i < 7; ++i) {
      EXPECT_EQ(reduced.out(root)[i], SumOfRanks(3, i));
    }
    Ranks sent(3, kSmallPieces, [&](int32_t rank) {
      return Call{.kind = MUONSHARD_BROADCAST,
                  .root = root,
                  .in_count = rank == root ? 7u : 0u,
                  .out_count = 7};
    });
    sent.ExpectAllHearOfAll();
    sent.Run();
    for (int32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(sent.out(rank), sent.in(root));
    }
  }
}

TEST(ScheduleTest, AMessageConcernsItsPairAlone) {
  const Call send = {.kind = MUONSHARD_SEND,
                     .reduction = {.data_type = MUONSHARD_I32},
                     .peer = 2,
                     .in_count = 9};
  const Schedule schedule = MakeSchedule(send, 0, 4, kSmallPieces);
  ASSERT_EQ(schedule.rounds.size(), 1u);
  ASSERT_EQ(schedule.rounds[0].sends.size(), 1u);
  EXPECT_EQ(schedule.rounds[0].sends[0].peer, 2);
  EXPECT_EQ(schedule.rounds[0].sends[0].from.bytes, 36u);
  EXPECT_TRUE(schedule.rounds[0].receives.empty());
}

}  // namespace
}  // namespace muonshard::ucx
