#include "plugins/loopback/shares.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "plugins/loopback/reduce.h"

namespace muonshard::loopback {
namespace {

// Between looks at `stop`: about a tenth of a millisecond.
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

class ShareRunner {
 public:
  ShareRunner(std::span<const Call* const> calls, size_t index,
              const std::atomic<bool>& stop)
      : calls_(calls), index_(index), stop_(stop), width_(calls[0]->width()) {}

  void AllReduceFold() const {
    const Segment share = EvenShareOf(index_);
    Fold(share, share.first, At(own().out, share.first));
  }

  void AllReduceCopy() const {
    for (size_t rank = 0; rank < calls_.size(); ++rank) {
      const Segment share = EvenShareOf(rank);
      Copy(At(calls_[rank]->out, share.first), share.count,
           At(own().out, share.first));
    }
  }

  // Each rank folds its share straight into the root's output.
  void Reduce() const {
    const Segment share = EvenShareOf(index_);
    const Call& root = *calls_[static_cast<size_t>(own().root)];
    Fold(share, share.first, At(root.out, share.first));
  }

  void Broadcast() const {
    const Call& root = *calls_[static_cast<size_t>(own().root)];
    Copy(root.in, own().out_count, own().out);
  }

  void ReduceScatter() const { Fold(own().in_segments[index_], 0, own().out); }

  void AllGather() const {
    for (size_t rank = 0; rank < calls_.size(); ++rank) {
      const Segment& to = own().out_segments[rank];
      Copy(calls_[rank]->in, to.count, At(own().out, to.first));
    }
  }

  void AllToAll() const {
    for (size_t rank = 0; rank < calls_.size(); ++rank) {
      const Segment& to = own().out_segments[rank];
      Copy(At(calls_[rank]->in, calls_[rank]->in_segments[index_].first),
           to.count, At(own().out, to.first));
    }
  }

  void Message() const {
    Copy(calls_[0]->in, calls_[0]->in_count, calls_[1]->out);
  }

 private:
  const Call& own() const { return *calls_[index_]; }

  Segment EvenShareOf(size_t index) const {
    return EvenShare(own().in_count, calls_.size(), index);
  }

  // Offsets into a buffer of no elements, which may be null, stay null.
  template <typename Byte>
  Byte* At(Byte* buffer, uint64_t element) const {
    return element == 0 ? buffer : buffer + element * width_;
  }

  // Reduces `segment.count` elements of all inputs into `out`. Each rank cuts
  // its own input, so segments of reduce-scatter are looked up per rank.
  void Fold(const Segment& segment, uint64_t first, std::byte* out) const {
    const bool scattered = own().kind == MUONSHARD_REDUCE_SCATTER_V;
    std::vector<const std::byte*> inputs(calls_.size());
    const uint64_t chunk_count = kChunkBytes / width_;
    for (uint64_t done = 0; done < segment.count && !stop_;
         done += chunk_count) {
      for (size_t rank = 0; rank < calls_.size(); ++rank) {
        const uint64_t from =
            scattered ? calls_[rank]->in_segments[index_].first : first;
        inputs[rank] = At(calls_[rank]->in, from + done);
      }
      loopback::Reduce(own().reduction, inputs,
                       std::min(chunk_count, segment.count - done),
                       At(out, done));
    }
  }

  void Copy(const std::byte* from, uint64_t count, std::byte* to) const {
    if (from == to) return;
    const uint64_t bytes = count * width_;
    for (uint64_t done = 0; done < bytes && !stop_; done += kChunkBytes) {
      std::memcpy(to + done, from + done, std::min(kChunkBytes, bytes - done));
    }
  }

  const std::span<const Call* const> calls_;
  const size_t index_;
  const std::atomic<bool>& stop_;
  const size_t width_;
};

}  // namespace

int32_t PhaseCount(uint32_t kind) {
  if (kind == MUONSHARD_BARRIER) return 0;
  return kind == MUONSHARD_ALL_REDUCE ? 2 : 1;
}

void RunShare(std::span<const Call* const> calls, int32_t phase, int32_t share,
              const std::atomic<bool>& stop) {
  const ShareRunner runner(calls, static_cast<size_t>(share), stop);
  switch (calls[0]->kind) {
    case MUONSHARD_ALL_REDUCE:
      return phase == 0 ? runner.AllReduceFold() : runner.AllReduceCopy();
    case MUONSHARD_REDUCE:
      return runner.Reduce();
    case MUONSHARD_BROADCAST:
      return runner.Broadcast();
    case MUONSHARD_REDUCE_SCATTER_V:
      return runner.ReduceScatter();
    case MUONSHARD_ALL_GATHER_V:
      return runner.AllGather();
    case MUONSHARD_ALL_TO_ALL_V:
      return runner.AllToAll();
    case MUONSHARD_SEND:
      return runner.Message();
    default:  // A barrier has no shares.
      return;
  }
}

Segment EvenShare(uint64_t count, uint64_t shares, uint64_t index) {
  const uint64_t quotient = count / shares;
  const uint64_t remainder = count % shares;
  return {.first = index * quotient + std::min(index, remainder),
          .count = quotient + (index < remainder ? 1 : 0)};
}

void SentBytes::Add(const Call& call) {
  const uint64_t width = call.width();
  switch (call.kind) {
    case MUONSHARD_ALL_REDUCE: {
      const uint64_t own = EvenShare(call.in_count, size_, rank_).count;
      const uint64_t quotient = call.in_count / size_;
      AddFrom(0, (own + quotient + 1) * width);
      // Where the longer shares end.
      AddFrom(call.in_count % size_, uint64_t{0} - width);
      break;
    }
    case MUONSHARD_REDUCE:
      ToOne(static_cast<size_t>(call.root)) += call.in_count * width;
      break;
    case MUONSHARD_BROADCAST:  // 0 but on the root.
    case MUONSHARD_ALL_GATHER_V:
      AddFrom(0, call.in_count * width);
      break;
    case MUONSHARD_REDUCE_SCATTER_V:
    case MUONSHARD_ALL_TO_ALL_V:
      for (size_t peer = 0; peer < size_; ++peer) {
        ToOne(peer) += call.in_segments[peer].count * width;
      }
      break;
    case MUONSHARD_SEND:
      ToOne(static_cast<size_t>(call.peer)) += call.in_count * width;
      break;
    default:  // Recv and Barrier send nothing.
      break;
  }
}

void SentBytes::AddFrom(uint64_t first, uint64_t bytes) {
  steps_[first] += bytes;
}

uint64_t& SentBytes::ToOne(size_t peer) {
  to_one_.resize(size_);
  return to_one_[peer];
}

void SentBytes::Fill(std::span<uint64_t> sent_to) const {
  std::fill(sent_to.begin(), sent_to.end(), 0);
  std::copy(to_one_.begin(), to_one_.end(), sent_to.begin());
  for (const auto& [first, more] : steps_) {
    for (size_t peer = first; peer < size_; ++peer) sent_to[peer] += more;
  }
  sent_to[rank_] = 0;
}

}  // namespace muonshard::loopback
