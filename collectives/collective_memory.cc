#include "collectives/collective_memory.h"

#include <vector>

namespace muonshard {
namespace {

// A cache line, so that vector code reads whole ones.
struct alignas(64) Line {
  std::byte bytes[64] = {};
};

class OrdinaryMemory final : public CollectiveMemory {
 public:
  explicit OrdinaryMemory(size_t bytes)
      : lines_((bytes + sizeof(Line) - 1) / sizeof(Line)) {
    bytes_ = std::as_writable_bytes(std::span(lines_)).first(bytes);
  }

 private:
  std::vector<Line> lines_;
};

}  // namespace

std::unique_ptr<CollectiveMemory> NewOrdinaryMemory(int64_t bytes) {
  return std::make_unique<OrdinaryMemory>(static_cast<size_t>(bytes));
}

}  // namespace muonshard
