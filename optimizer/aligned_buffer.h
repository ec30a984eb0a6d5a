// Zeroed bytes that start at a multiple of 64.

#ifndef OPTIMIZER_ALIGNED_BUFFER_H_
#define OPTIMIZER_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace muonshard {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(::operator new (
            bytes == 0 ? kAlignment : bytes, std::align_val_t{kAlignment}))) {
    std::memset(data_.get(), 0, bytes);
  }

  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlignment = 64;
  struct Deleter {
    void operator()(std::byte* data) const {
      ::operator delete (data, std::align_val_t{kAlignment});
    }
  };

  size_t bytes_ = 0;
  std::unique_ptr<std::byte, Deleter> data_;
};

}  // namespace muonshard

#endif  // OPTIMIZER_ALIGNED_BUFFER_H_
