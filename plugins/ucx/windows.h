// Memory of all ranks of a group that its neighbours have mapped: what is sent
// from it is read where it lies.
//
// In this file
//   window   a number, equal on all ranks, for one piece of memory of each
//
// Threads      One at a time.
// Memory       A rank that has freed its part leaves the other parts alone;
//              what peers have freed is unmapped when somebody next looks.

#ifndef PLUGINS_UCX_WINDOWS_H_
#define PLUGINS_UCX_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "plugins/ucx/shared_memory.h"

namespace muonshard::ucx {

class Windows {
 public:
  // Bytes before the caller's, of every part.
  static constexpr uint64_t kHeadBytes = 4096;

  // `parts` by rank, null where there is none; all groups' ranks in one order.
  // Returns the window.
  int32_t Add(std::vector<std::unique_ptr<SharedMemory>> parts, int32_t rank);
  // A window that was not made on some rank: its number is used up.
  void Skip() { ++next_; }
  // The own part. False if there is no such window.
  bool Free(int32_t window);

  // The window and place of own memory; false if it is in none.
  bool Find(const std::byte* from, uint64_t bytes, int32_t* window,
            uint64_t* offset) const;
  // Memory of a peer; null if it is in no window of it.
  const std::byte* At(int32_t peer, int32_t window, uint64_t offset,
                      uint64_t bytes) const;

 private:
  struct Window {
    std::unique_ptr<SharedMemory> own;
    std::vector<std::unique_ptr<SharedMemory>> parts;  // By peer.
  };

  void Sweep();

  int32_t next_ = 0;
  std::map<int32_t, Window> windows_;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_WINDOWS_H_
