// Memory that a Collective has made for its calls' buffers.
//
// Memory       Each rank frees its own, when no call that uses it is in flight.
//              It keeps its group: a rank leaves when its Collective and all
//              memory of it are gone.

#ifndef COLLECTIVES_COLLECTIVE_MEMORY_H_
#define COLLECTIVES_COLLECTIVE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace muonshard {

class CollectiveMemory {
 public:
  virtual ~CollectiveMemory() = default;
  CollectiveMemory(const CollectiveMemory&) = delete;
  CollectiveMemory& operator=(const CollectiveMemory&) = delete;

  // Aligned to at least 64 bytes.
  std::span<std::byte> bytes() const { return bytes_; }

 protected:
  CollectiveMemory() = default;
  std::span<std::byte> bytes_;
};

// Zeros that no other rank reads.
std::unique_ptr<CollectiveMemory> NewOrdinaryMemory(int64_t bytes);

}  // namespace muonshard

#endif  // COLLECTIVES_COLLECTIVE_MEMORY_H_
