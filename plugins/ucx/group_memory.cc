// How the ranks of a group make memory that they share.

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/ucx/group.h"
#include "plugins/ucx/locked.h"
#include "plugins/ucx/shared_memory.h"
#include "plugins/ucx/windows.h"

namespace muonshard::ucx {
namespace {

using plugins::Outcome;
using plugins::Quoted;

// What each rank tells of its memory.
struct MemoryCard {
  int64_t process;
  uint64_t bytes;
  int32_t descriptor;
  int32_t failed;  // A code.
};

}  // namespace

Outcome Group::NewMemory(uint64_t bytes, int64_t deadline_ns, void** data,
                         int32_t* window) {
  const Identity& own = communicator_->identity();
  const auto size = static_cast<size_t>(own.size);
  const auto self = static_cast<size_t>(own.rank);
  const std::string label = "memory of " + std::to_string(bytes) + " bytes";
  std::vector<std::unique_ptr<SharedMemory>> parts(size);
  Outcome outcome =
      SharedMemory::Make(Windows::kHeadBytes + bytes, &parts[self]);
  MemoryCard mine = {
      .process = getpid(),
      .bytes = Windows::kHeadBytes + bytes,
      .descriptor = outcome.ok() ? parts[self]->descriptor() : -1,
      .failed = outcome.code};
  std::vector<MemoryCard> cards(size);
  const auto gather = [&] {
    return Gather("windows", deadline_ns, std::as_bytes(std::span(&mine, 1)),
                  std::as_writable_bytes(std::span(cards)));
  };
  if (Outcome bad = gather(); !bad.ok()) return bad;
  for (size_t peer = 0; peer < size && outcome.ok(); ++peer) {
    const auto rank = static_cast<int32_t>(peer);
    if (peer == self || cards[peer].failed != MUONSHARD_OK ||
        !communicator_->IsNeighbour(rank)) {
      continue;
    }
    outcome = SharedMemory::Open(cards[peer].process, cards[peer].descriptor,
                                 cards[peer].bytes, &parts[peer]);
  }
  // All have it or none.
  mine.failed = outcome.code;
  if (Outcome bad = gather(); !bad.ok()) return bad;
  Locked locked(communicator_);
  for (size_t peer = 0; peer < size; ++peer) {
    if (cards[peer].failed == MUONSHARD_OK) continue;
    communicator_->windows().Skip();
    return {.code = cards[peer].failed,
            .text = label + " in group " + Quoted(own.name) + ": " +
                    (peer == self ? outcome.text
                                  : "rank " + std::to_string(peer) +
                                        " could not share it"),
            .rank = static_cast<int32_t>(peer)};
  }
  parts[self]->Hide();
  *data = parts[self]->data() + Windows::kHeadBytes;
  *window = communicator_->windows().Add(std::move(parts), own.rank);
  return {};
}

Outcome Group::FreeMemory(int32_t window) {
  Locked locked(communicator_);
  if (communicator_->windows().Free(window)) return {};
  return {.code = MUONSHARD_E_ARGUMENT,
          .text = "group " + Quoted(communicator_->identity().name) +
                  " has no window " + std::to_string(window) + " of this rank"};
}

}  // namespace muonshard::ucx
