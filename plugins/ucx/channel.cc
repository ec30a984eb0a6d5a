#include "plugins/ucx/channel.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "collectives/plugin_abi.h"

namespace muonshard::ucx {
namespace {

using plugins::Call;
using plugins::Outcome;
using plugins::Segment;

constexpr int32_t kEmpty = -1;
constexpr int32_t kExposed = -2;

// 0, or the error's number.
int ReadOf(int64_t process, uint64_t address, std::byte* to, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const iovec local = {to + done, bytes - done};
    // An address of the other process's.
    const iovec remote = {reinterpret_cast<void*>(address + done),
                          bytes - done};
    const ssize_t got =
        process_vm_readv(static_cast<pid_t>(process), &local, 1, &remote, 1, 0);
    if (got < 0) return errno;
    if (got == 0) return EFAULT;
    done += static_cast<uint64_t>(got);
  }
  return 0;
}

uint64_t* CountsOf(CallCard* card) {
  return reinterpret_cast<uint64_t*>(card + 1);
}

uint64_t* PutCounts(const std::vector<Segment>& segments, uint64_t* to) {
  for (const Segment& segment : segments) *to++ = segment.count;
  return to;
}

std::vector<Segment> SegmentsOf(const uint64_t* counts, uint64_t size) {
  std::vector<Segment> segments;
  uint64_t first = 0;
  for (uint64_t i = 0; i < size; ++i) {
    segments.push_back({first, counts[i]});
    first += counts[i];
  }
  return segments;
}

}  // namespace

Channel::Channel(int32_t rank, int32_t size)
    : rank_(rank),
      layout_(static_cast<uint64_t>(size)),
      arenas_(Index(size)),
      to_(Index(size)),
      from_(Index(size)),
      chunks_(layout_.chunk_count()) {
  for (Outgoing& to : to_) to.chunk_of.resize(kNoticeCount);
  for (size_t i = chunks_.size(); i > 0; --i) {
    free_chunks_.push_back(static_cast<int32_t>(i - 1));
  }
}

Outcome Channel::Make(int32_t rank, int32_t size,
                      std::unique_ptr<Channel>* made) {
  std::unique_ptr<Channel> channel(new Channel(rank, size));
  if (Outcome bad =
          SharedMemory::Make(channel->layout_.bytes(), &channel->own_.memory);
      !bad.ok()) {
    return bad;
  }
  *made = std::move(channel);
  return {};
}

Outcome Channel::Attach(int32_t peer, int64_t process, int descriptor) {
  arenas_[Index(peer)].process = process;
  return SharedMemory::Open(process, descriptor, layout_.bytes(),
                            &arenas_[Index(peer)].memory);
}

bool Channel::CanRead(int32_t peer, uint64_t address) const {
  uint64_t probe = 0;
  return ReadOf(arenas_[Index(peer)].process, address,
                reinterpret_cast<std::byte*>(&probe), sizeof(probe)) == 0 &&
         probe == kProbe;
}

int Channel::ReadInProcess(int32_t peer, const Notice& notice,
                           std::byte* to) const {
  return ReadOf(arenas_[Index(peer)].process, notice.offset, to, notice.bytes);
}

void Channel::Describe(uint64_t sequence, const Call& call) {
  auto* const card = own_.At<CallCard>(layout_.card(sequence));
  card->sequence = sequence;
  card->fingerprint = call.fingerprint;
  card->in_count = call.in_count;
  card->out_count = call.out_count;
  card->scale = call.reduction.scale;
  card->kind = call.kind;
  card->data_type = call.reduction.data_type;
  card->reduction = call.reduction.kind;
  card->root = call.root;
  card->in_segments = static_cast<uint32_t>(call.in_segments.size());
  card->out_segments = static_cast<uint32_t>(call.out_segments.size());
  const size_t length = std::min(call.label.size(), card->label.size() - 1);
  std::memcpy(card->label.data(), call.label.data(), length);
  card->label[length] = '\0';
  PutCounts(call.out_segments, PutCounts(call.in_segments, CountsOf(card)));
}

std::string Channel::CallOf(int32_t peer, uint64_t sequence) const {
  auto* const card = arenas_[Index(peer)].At<CallCard>(layout_.card(sequence));
  const uint64_t size = arenas_.size();
  if (card->sequence != sequence || card->kind >= MUONSHARD_OPERATION_KINDS ||
      card->in_segments > size || card->out_segments > size) {
    return "";
  }
  Call call;
  call.fingerprint = card->fingerprint;
  call.in_count = card->in_count;
  call.out_count = card->out_count;
  call.reduction.scale = card->scale;
  call.kind = card->kind;
  call.reduction.data_type = card->data_type;
  call.reduction.kind = card->reduction;
  call.root = card->root;
  call.label.assign(card->label.data(),
                    strnlen(card->label.data(), card->label.size()));
  const uint64_t* const counts = CountsOf(card);
  call.in_segments = SegmentsOf(counts, card->in_segments);
  call.out_segments =
      SegmentsOf(counts + card->in_segments, card->out_segments);
  return plugins::Describe(call);
}

void Channel::LookAtReleased(int32_t peer) {
  Outgoing& to = to_[Index(peer)];
  const uint64_t released = arenas_[Index(peer)]
                                .At<Released>(layout_.released(Index(rank_)))
                                ->count.load(std::memory_order_acquire);
  for (; to.released < std::min(released, to.sent); ++to.released) {
    const int32_t chunk = to.chunk_of[to.released % kNoticeCount];
    if (chunk == kExposed) ++to.exposed_released;
    if (chunk < 0) continue;
    --to.chunks;
    if (--chunks_[Index(chunk)].readers == 0) free_chunks_.push_back(chunk);
  }
}

int32_t Channel::ChunkWith(const Message& message, const std::byte* payload,
                           uint64_t bytes) {
  for (size_t i = 0; i < chunks_.size(); ++i) {
    Chunk& chunk = chunks_[i];
    if (chunk.readers == 0 || chunk.source != payload || chunk.bytes != bytes ||
        chunk.message.sequence != message.sequence ||
        chunk.message.round != message.round ||
        chunk.message.number != message.number) {
      continue;
    }
    ++chunk.readers;
    return static_cast<int32_t>(i);
  }
  const int32_t index = free_chunks_.back();
  free_chunks_.pop_back();
  chunks_[Index(index)] = {
      .readers = 1, .source = payload, .bytes = bytes, .message = message};
  std::memcpy(own_.At<std::byte>(layout_.chunks() +
                                 static_cast<uint64_t>(index) * kChunkBytes),
              payload, bytes);
  return index;
}

void Channel::Publish(int32_t peer, const Message& message, uint64_t offset,
                      uint64_t bytes, int32_t window, int32_t chunk) {
  Outgoing& to = to_[Index(peer)];
  to.chunk_of[to.sent % kNoticeCount] = chunk;
  auto* const notice = own_.At<Notice>(layout_.notice(Index(peer), to.sent));
  notice->sequence = message.sequence;
  notice->digest = message.digest;
  notice->total = message.total;
  notice->offset = offset;
  notice->bytes = bytes & ((uint64_t{1} << 48) - 1);
  notice->round = message.round & 0xffff;
  notice->number = message.number;
  notice->window = window;
  notice->stamp.store(++to.sent, std::memory_order_release);
}

bool Channel::Send(int32_t peer, const Message& message,
                   const std::byte* payload, uint64_t bytes) {
  Outgoing& to = to_[Index(peer)];
  const auto full = [&] {
    return to.sent - to.released >= kNoticeCount ||
           (bytes > 0 && to.chunks >= kChunksPerPeer);
  };
  if (full()) {
    LookAtReleased(peer);
    if (full()) return false;
  }
  int32_t chunk = kEmpty;
  uint64_t offset = 0;
  if (bytes > 0) {
    // Peers' shares add up to all chunks, so that one is free.
    if (free_chunks_.empty()) {
      for (size_t p = 0; p < arenas_.size(); ++p) {
        if (arenas_[p].memory != nullptr) {
          LookAtReleased(static_cast<int32_t>(p));
        }
      }
    }
    chunk = ChunkWith(message, payload, bytes);
    offset = static_cast<uint64_t>(chunk) * kChunkBytes;
    ++to.chunks;
  }
  Publish(peer, message, offset, bytes, kInChunk, chunk);
  return true;
}

bool Channel::SendExposed(int32_t peer, const Message& message, int32_t window,
                          uint64_t offset, uint64_t bytes) {
  Outgoing& to = to_[Index(peer)];
  if (to.sent - to.released >= kNoticeCount) {
    LookAtReleased(peer);
    if (to.sent - to.released >= kNoticeCount) return false;
  }
  Publish(peer, message, offset, bytes, window, kExposed);
  return true;
}

uint64_t Channel::TakeReleased(int32_t peer) {
  LookAtReleased(peer);
  return std::exchange(to_[Index(peer)].exposed_released, 0);
}

const Notice* Channel::Next(int32_t peer) const {
  const Incoming& from = from_[Index(peer)];
  const auto* const notice =
      arenas_[Index(peer)].At<Notice>(layout_.notice(Index(rank_), from.taken));
  return notice->stamp.load(std::memory_order_acquire) == from.taken + 1
             ? notice
             : nullptr;
}

const std::byte* Channel::PayloadInChunk(int32_t peer,
                                         const Notice& notice) const {
  if (notice.bytes > kChunkBytes ||
      notice.offset > (layout_.chunk_count() - 1) * kChunkBytes) {
    return nullptr;
  }
  return arenas_[Index(peer)].At<std::byte>(layout_.chunks() + notice.offset);
}

void Channel::Release(int32_t peer) {
  own_.At<Released>(layout_.released(Index(peer)))
      ->count.store(++from_[Index(peer)].released, std::memory_order_release);
}

void Channel::SetBroken() {
  own_.At<Control>(0)->broken.store(1, std::memory_order_seq_cst);
  // What is written to windows from here on comes after it.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool Channel::IsBroken(int32_t peer) const {
  // What has been read comes before it.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return arenas_[Index(peer)].At<Control>(0)->broken.load(
             std::memory_order_seq_cst) != 0;
}

void Channel::BeginSleep() {
  own_.At<Control>(0)->sleeps.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Channel::EndSleep() {
  own_.At<Control>(0)->sleeps.store(0, std::memory_order_relaxed);
}

bool Channel::MustWake(int32_t peer) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::atomic<uint32_t>& sleeps = arenas_[Index(peer)].At<Control>(0)->sleeps;
  return sleeps.load(std::memory_order_relaxed) != 0 &&
         sleeps.exchange(0, std::memory_order_acq_rel) != 0;
}

}  // namespace muonshard::ucx
