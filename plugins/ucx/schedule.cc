#include "plugins/ucx/schedule.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "collectives/plugin_abi.h"

namespace muonshard::ucx {
namespace {

using plugins::Call;
using plugins::Segment;

class Maker {
 public:
  Maker(const Call& call, int32_t rank, int32_t size,
        const ScheduleOptions& options)
      : call_(call),
        rank_(rank),
        size_(size),
        options_(options),
        width_(call.width()) {}

  Schedule Make() {
    switch (call_.kind) {
      case MUONSHARD_ALL_REDUCE:
        AllReduce();
        break;
      case MUONSHARD_REDUCE:
        Reduce();
        break;
      case MUONSHARD_BROADCAST:
        Broadcast();
        break;
      case MUONSHARD_REDUCE_SCATTER_V:
        Scatter(call_.in_segments, {Space::kOut, 0});
        break;
      case MUONSHARD_ALL_GATHER_V:
        Gather(call_.out_segments, {Space::kIn, 0});
        break;
      case MUONSHARD_ALL_TO_ALL_V:
        Exchange();
        break;
      case MUONSHARD_SEND:
        Begin();
        AddSend(call_.peer, Of(Space::kIn, {0, call_.in_count}));
        break;
      case MUONSHARD_RECV:
        Begin();
        AddReceive(call_.peer, Of(Space::kOut, {0, call_.out_count}));
        break;
      default:
        Begin();
        break;
    }
    if (!call_.pairwise()) HearFromAll();
    for (Round& made : schedule_.rounds) made.parts = PartsOf(made);
    return std::move(schedule_);
  }

 private:
  struct Place {
    Space space;
    uint64_t offset;
  };

  Round& round() { return schedule_.rounds.back(); }
  void Begin() { schedule_.rounds.emplace_back(); }
  size_t index() const { return static_cast<size_t>(rank_); }

  Piece Of(Space space, const Segment& segment) const {
    return {space, segment.first * width_, segment.count * width_};
  }

  // As one message: whoever receives it has room for all of it.
  void AddSend(int32_t peer, const Piece& from) {
    round().sends.push_back({.peer = peer, .from = from});
  }
  void AddReceive(int32_t peer, const Piece& to) {
    round().receives.push_back({.peer = peer, .to = to});
  }
  void AddCopy(const Piece& from, const Piece& to) {
    if (from.bytes > 0) round().copies.push_back({from, to});
  }

  uint64_t PieceCount() const {
    return std::max<uint64_t>(1, options_.piece_bytes / width_);
  }

  // One rank's contribution to `segment` of another, in pieces.
  void SendInPieces(int32_t peer, const Segment& segment) {
    uint32_t number = 0;
    for (uint64_t done = 0; done < segment.count; ++number) {
      const uint64_t count = std::min(PieceCount(), segment.count - done);
      round().sends.push_back(
          {.peer = peer,
           .number = number,
           .from = Of(Space::kIn, {segment.first + done, count}),
           .is_folded = true});
      done += count;
    }
  }

  // Receives all contributions to `segment` of the input and folds them into
  // `to`.
  void FoldInPieces(const Segment& segment, const Place& to) {
    const uint64_t slot_bytes = std::min(PieceCount(), segment.count) * width_;
    const auto peers = static_cast<uint64_t>(size_ - 1);
    const uint64_t first_slot = schedule_.scratch_bytes;
    uint32_t number = 0;
    for (uint64_t done = 0; done < segment.count; ++number) {
      const uint64_t count = std::min(PieceCount(), segment.count - done);
      const uint64_t slots =
          first_slot + number % options_.pieces_at_once * peers * slot_bytes;
      Fold fold{.count = count,
                .to = {to.space, to.offset + done * width_, count * width_}};
      uint64_t slot = slots;
      for (int32_t peer = 0; peer < size_; ++peer) {
        if (peer == rank_) {
          fold.contributions.push_back(
              Of(Space::kIn, {segment.first + done, count}));
          fold.receives.push_back(-1);
          continue;
        }
        const Piece contribution = {Space::kScratch, slot, count * width_};
        fold.contributions.push_back(contribution);
        fold.receives.push_back(static_cast<int32_t>(round().receives.size()));
        slot += slot_bytes;
        const auto at_once = static_cast<int32_t>(options_.pieces_at_once);
        const auto index = static_cast<int32_t>(number);
        round().receives.push_back(
            {.peer = peer,
             .number = number,
             .to = contribution,
             .after_fold = index < at_once ? -1 : index - at_once,
             .fold = index});
      }
      schedule_.scratch_bytes = std::max(schedule_.scratch_bytes, slot);
      round().folds.push_back(std::move(fold));
      done += count;
    }
  }

  // Each rank sends every other its contribution to that one's segment.
  void Scatter(const std::vector<Segment>& segments, const Place& to) {
    Begin();
    ForEachPeer([&](int32_t peer) {
      SendInPieces(peer, segments[static_cast<size_t>(peer)]);
    });
    FoldInPieces(segments[index()], to);
  }

  // Each rank sends every other its own segment, which lies at `own`.
  void Gather(const std::vector<Segment>& segments, const Place& own) {
    Begin();
    const Segment& mine = segments[index()];
    const Piece from = {own.space, own.offset, mine.count * width_};
    if (own.space == Space::kIn) AddCopy(from, Of(Space::kOut, mine));
    ForEachPeer([&](int32_t peer) {
      const Piece to = Of(Space::kOut, segments[static_cast<size_t>(peer)]);
      if (from.bytes > 0) AddSend(peer, from);
      if (to.bytes > 0) AddReceive(peer, to);
    });
  }

  void AllReduce() {
    const uint64_t count = call_.in_count;
    if (count * width_ <= options_.direct_bytes_max) {
      Begin();
      ForEachPeer([&](int32_t peer) { SendInPieces(peer, {0, count}); });
      FoldInPieces({0, count}, {Space::kOut, 0});
      round().folds_after_sends = true;
      return;
    }
    std::vector<Segment> shares;
    for (int32_t r = 0; r < size_; ++r) shares.push_back(ShareOf(count, r));
    const Place own = {Space::kOut, shares[index()].first * width_};
    Scatter(shares, own);
    Gather(shares, own);
  }

  void Reduce() {
    Begin();
    const Segment all = {0, call_.in_count};
    if (rank_ == call_.root) {
      FoldInPieces(all, {Space::kOut, 0});
    } else {
      SendInPieces(call_.root, all);
    }
  }

  void Broadcast() {
    Begin();
    if (rank_ != call_.root) {
      const Piece to = Of(Space::kOut, {0, call_.out_count});
      if (to.bytes > 0) AddReceive(call_.root, to);
      return;
    }
    const Piece from = Of(Space::kIn, {0, call_.in_count});
    AddCopy(from, Of(Space::kOut, {0, call_.in_count}));
    ForEachPeer([&](int32_t peer) {
      if (from.bytes > 0) AddSend(peer, from);
    });
  }

  void Exchange() {
    Begin();
    AddCopy(Of(Space::kIn, call_.in_segments[index()]),
            Of(Space::kOut, call_.out_segments[index()]));
    ForEachPeer([&](int32_t peer) {
      const auto p = static_cast<size_t>(peer);
      AddSend(peer, Of(Space::kIn, call_.in_segments[p]));
      AddReceive(peer, Of(Space::kOut, call_.out_segments[p]));
    });
  }

  // Rank by rank from the next one on, so that not all send to one at once.
  template <typename Function>
  void ForEachPeer(Function function) const {
    for (int32_t step = 1; step < size_; ++step) {
      function((rank_ + step) % size_);
    }
  }

  Segment ShareOf(uint64_t count, int32_t rank) const {
    const auto size = static_cast<uint64_t>(size_);
    const auto r = static_cast<uint64_t>(rank);
    const uint64_t more = std::min(r, count % size);
    return {count / size * r + more, count / size + (r < count % size ? 1 : 0)};
  }

  // Adds empty messages to the first round where a pair has none.
  void HearFromAll() {
    Round& first = schedule_.rounds.front();
    std::vector<bool> sent(static_cast<size_t>(size_));
    std::vector<bool> received(static_cast<size_t>(size_));
    for (const Send& send : first.sends) {
      sent[static_cast<size_t>(send.peer)] = true;
    }
    for (const Receive& receive : first.receives) {
      received[static_cast<size_t>(receive.peer)] = true;
    }
    ForEachPeer([&](int32_t peer) {
      if (!sent[static_cast<size_t>(peer)])
        first.sends.push_back({.peer = peer});
      if (!received[static_cast<size_t>(peer)]) {
        first.receives.push_back({.peer = peer});
      }
    });
  }

  std::vector<PeerPart> PartsOf(const Round& made) const {
    std::vector<PeerPart> parts(static_cast<size_t>(size_));
    for (size_t i = 0; i < made.sends.size(); ++i) {
      PeerPart& part = parts[static_cast<size_t>(made.sends[i].peer)];
      part.sends.push_back(static_cast<uint32_t>(i));
      part.bytes_sent += made.sends[i].from.bytes;
    }
    for (size_t i = 0; i < made.receives.size(); ++i) {
      PeerPart& part = parts[static_cast<size_t>(made.receives[i].peer)];
      part.receives.push_back(static_cast<uint32_t>(i));
      part.bytes_received += made.receives[i].to.bytes;
    }
    for (size_t peer = 0; peer < parts.size(); ++peer) {
      parts[peer].peer = static_cast<int32_t>(peer);
    }
    std::erase_if(parts, [](const PeerPart& part) {
      return part.sends.empty() && part.receives.empty();
    });
    return parts;
  }

  const Call& call_;
  const int32_t rank_;
  const int32_t size_;
  const ScheduleOptions& options_;
  const uint64_t width_;
  Schedule schedule_;
};

}  // namespace

Schedule MakeSchedule(const Call& call, int32_t rank, int32_t size,
                      const ScheduleOptions& options) {
  return Maker(call, rank, size, options).Make();
}

}  // namespace muonshard::ucx
