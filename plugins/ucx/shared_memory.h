// Memory that several processes of a host have mapped.
//
// Memory       It has no name: it is gone with the last process that maps it,
//              however that process ends. Whoever else maps it sees what is
//              written to it.
// Errors       MUONSHARD_E_SYSTEM with the system's words,
//              MUONSHARD_E_MEMORY.

#ifndef PLUGINS_UCX_SHARED_MEMORY_H_
#define PLUGINS_UCX_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "plugins/support/outcome.h"

namespace muonshard::ucx {

class SharedMemory {
 public:
  // Zeros; `bytes` > 0. Nobody makes it smaller.
  static plugins::Outcome Make(uint64_t bytes,
                               std::unique_ptr<SharedMemory>* made);
  // What `process`, of the same user, has made and not hidden.
  static plugins::Outcome Open(int64_t process, int descriptor, uint64_t bytes,
                               std::unique_ptr<SharedMemory>* opened);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  // What others open it by; -1 once it is hidden.
  int descriptor() const { return descriptor_; }
  void Hide();

 private:
  explicit SharedMemory(uint64_t bytes) : bytes_(bytes) {}
  plugins::Outcome Map(int descriptor);

  std::byte* data_ = nullptr;
  const uint64_t bytes_;
  int descriptor_ = -1;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_SHARED_MEMORY_H_
