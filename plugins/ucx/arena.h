// How the memory lies through which a rank talks to the others of its host:
// its arena, which it alone writes, but for `sleeps`, and which they read.
//
//   control   flags
//   cards     what its latest operations are, in words once somebody asks
//   released  by peer: how many of the peer's notices it needs no more
//   notices   by peer: a ring of what it tells that one
//   chunks    payloads
//
// Ordering     What is written before a stamp or a count is seen by whoever
//              sees that.

#ifndef PLUGINS_UCX_ARENA_H_
#define PLUGINS_UCX_ARENA_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace muonshard::ucx {

inline constexpr size_t kLineBytes = 64;  // Of a cache.
// No two ranks are more than one operation apart, since each hears from every
// other in each.
inline constexpr uint64_t kCardCount = 4;
inline constexpr uint64_t kNoticeCount = 32;
inline constexpr uint64_t kChunkBytes = 64 * 1024;
// A peer that does not read keeps no more than this from the others.
inline constexpr uint64_t kChunksPerPeer = 4;
// Where a payload is that is in no window: in a chunk, or in the memory of the
// sender's process.
inline constexpr int32_t kInChunk = -1;
inline constexpr int32_t kInProcess = -2;

struct Notice {
  alignas(kLineBytes) std::atomic<uint64_t> stamp;  // Its number, from 1 on.
  uint64_t sequence;                                // Of the operation.
  uint64_t digest;
  uint64_t total;   // Bytes of all messages of its round to this peer.
  uint64_t offset;  // Of the payload in where it is.
  uint64_t bytes : 48;
  uint64_t round : 16;
  uint32_t number;
  int32_t window;
};
static_assert(sizeof(Notice) == kLineBytes);

struct Control {
  // The rank's group is broken: what is in its windows may change.
  alignas(kLineBytes) std::atomic<uint32_t> broken;
  // The rank sleeps. Whoever has something for it sets this to 0 and wakes it.
  alignas(kLineBytes) std::atomic<uint32_t> sleeps;
};

struct Released {
  alignas(kLineBytes) std::atomic<uint64_t> count;
};

// A call, without what lists it has.
struct CallCard {
  uint64_t sequence;
  uint64_t fingerprint;
  uint64_t in_count;
  uint64_t out_count;
  double scale;
  uint32_t kind;
  uint32_t data_type;
  uint32_t reduction;
  int32_t root;
  uint32_t in_segments;  // How many counts follow, and of `out` behind them.
  uint32_t out_segments;
  std::array<char, 120> label;  // Zeros at the end.
};

// Where each lies, of a group of `size` ranks.
class ArenaLayout {
 public:
  explicit ArenaLayout(uint64_t size) : size_(size) {}

  uint64_t card_bytes() const {
    return RoundUp(sizeof(CallCard) + 2 * size_ * sizeof(uint64_t));
  }
  uint64_t card(uint64_t sequence) const {
    return sizeof(Control) + sequence % kCardCount * card_bytes();
  }
  uint64_t released(uint64_t peer) const {
    return card(0) + kCardCount * card_bytes() + peer * sizeof(Released);
  }
  uint64_t notice(uint64_t peer, uint64_t number) const {
    return released(size_) +
           (peer * kNoticeCount + number % kNoticeCount) * sizeof(Notice);
  }
  uint64_t chunk_count() const { return (size_ - 1) * kChunksPerPeer; }
  uint64_t chunks() const { return RoundUp(notice(size_, 0), 4096); }
  uint64_t bytes() const { return chunks() + chunk_count() * kChunkBytes; }

 private:
  static uint64_t RoundUp(uint64_t bytes, uint64_t to = kLineBytes) {
    return (bytes + to - 1) / to * to;
  }

  const uint64_t size_;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_ARENA_H_
