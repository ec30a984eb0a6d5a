// Messages between ranks of one host, through memory that they share.
//
// In this file
//   exposed   a payload that its receiver reads where it lies, in a window or
//             elsewhere in the sender's process, and not in a chunk that it was
//             copied to
//
// Ordering     Messages of a pair come in the order in which they were sent.
// Threads      One at a time.
// Memory       A copied payload is the caller's again on return; an exposed one
//              once its receiver has released it. Nothing of a message may be
//              read after its Release.
// Blocking     Nothing waits. A peer that sleeps is to be woken by the caller.
// Errors       None after Attach: bad notices are the caller's to find.

#ifndef PLUGINS_UCX_CHANNEL_H_
#define PLUGINS_UCX_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/support/call.h"
#include "plugins/support/outcome.h"
#include "plugins/ucx/arena.h"
#include "plugins/ucx/shared_memory.h"

namespace muonshard::ucx {

class Channel {
 public:
  // Of `rank` among `size` > 1.
  static plugins::Outcome Make(int32_t rank, int32_t size,
                               std::unique_ptr<Channel>* made);

  // What peers attach.
  SharedMemory& arena() { return *own_.memory; }
  plugins::Outcome Attach(int32_t peer, int64_t process, int descriptor);
  // Tries whether a payload can be read in the process of a peer, where a word
  // of its channel's is at `address`.
  bool CanRead(int32_t peer, uint64_t address) const;
  uint64_t probe_address() const { return reinterpret_cast<uint64_t>(&probe_); }
  // A peer that does not reach this one is not reached.
  void Detach(int32_t peer) { arenas_[Index(peer)] = {}; }
  // Whether `peer` can read in this process.
  void SetReadBy(int32_t peer) { arenas_[Index(peer)].reads = true; }
  bool is_read_by(int32_t peer) const { return arenas_[Index(peer)].reads; }
  bool reaches(int32_t peer) const {
    return arenas_[Index(peer)].memory != nullptr;
  }

  // Says what operation `sequence` is, before a message of it is sent.
  void Describe(uint64_t sequence, const plugins::Call& call);
  // What `peer` said, in words; empty if it is too long ago.
  std::string CallOf(int32_t peer, uint64_t sequence) const;

  struct Message {
    uint64_t sequence = 0;
    uint64_t digest = 0;
    uint64_t total = 0;  // Bytes of all of its round to the peer.
    uint32_t round = 0;
    uint32_t number = 0;
  };
  // False if there is no room. `bytes` <= kChunkBytes. Equal payloads to
  // several peers, one after another, are copied once: those of one `message`
  // at one place.
  bool Send(int32_t peer, const Message& message, const std::byte* payload,
            uint64_t bytes);
  // The same from `offset` of a window on, or from an address, kInProcess.
  bool SendExposed(int32_t peer, const Message& message, int32_t window,
                   uint64_t offset, uint64_t bytes);
  // How many exposed messages `peer` has released since the last call.
  uint64_t TakeReleased(int32_t peer);

  // The next message from `peer`, null if there is none.
  const Notice* Next(int32_t peer) const;
  const std::byte* PayloadInChunk(int32_t peer, const Notice& notice) const;
  // Copies one that is kInProcess; 0, or the error's number.
  int ReadInProcess(int32_t peer, const Notice& notice, std::byte* to) const;
  // It is taken; to be released, in order, once its payload has been read.
  void Take(int32_t peer) { ++from_[Index(peer)].taken; }
  void Release(int32_t peer);

  void SetBroken();
  bool IsBroken(int32_t peer) const;

  // Between the two, peers that have sent or released something ask who is to
  // be woken. What came before is seen by whoever looks after.
  void BeginSleep();
  void EndSleep();
  // Whether `peer` sleeps; says so once.
  bool MustWake(int32_t peer);

 private:
  struct Arena {
    std::unique_ptr<SharedMemory> memory;
    int64_t process = 0;
    bool reads = false;
    template <typename T>
    T* At(uint64_t offset) const {
      return reinterpret_cast<T*>(memory->data() + offset);
    }
  };
  struct Chunk {
    uint32_t readers = 0;
    // What it holds.
    const std::byte* source = nullptr;
    uint64_t bytes = 0;
    Message message;
  };
  struct Outgoing {
    uint64_t sent = 0;
    uint64_t released = 0;
    uint64_t chunks = 0;            // That it has yet to release.
    uint64_t exposed_released = 0;  // Not told yet.
    std::vector<int32_t> chunk_of;  // By notice; < 0 where it has none.
  };
  struct Incoming {
    uint64_t taken = 0;
    uint64_t released = 0;
  };

  Channel(int32_t rank, int32_t size);
  static size_t Index(int32_t rank) { return static_cast<size_t>(rank); }
  void LookAtReleased(int32_t peer);
  int32_t ChunkWith(const Message& message, const std::byte* payload,
                    uint64_t bytes);
  void Publish(int32_t peer, const Message& message, uint64_t offset,
               uint64_t bytes, int32_t window, int32_t chunk);

  static constexpr uint64_t kProbe = 0x6d756f6e73686172;  // "muonshar"

  const uint64_t probe_ = kProbe;
  const int32_t rank_;
  const ArenaLayout layout_;
  Arena own_;
  std::vector<Arena> arenas_;  // By peer.
  std::vector<Outgoing> to_;   // By peer.
  std::vector<Incoming> from_;
  std::vector<Chunk> chunks_;
  std::vector<int32_t> free_chunks_;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_CHANNEL_H_
