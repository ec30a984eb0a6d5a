// Bytes that wait to be sent or to be read: added at the end, dropped from the
// front.

#ifndef COLLECTIVES_TCP_BYTE_QUEUE_H_
#define COLLECTIVES_TCP_BYTE_QUEUE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace muonshard {

class ByteQueue {
 public:
  bool empty() const { return dropped_ == buffer_.size(); }
  size_t size() const { return buffer_.size() - dropped_; }

  // Valid until the queue is changed.
  absl::string_view bytes() const {
    return absl::string_view(buffer_).substr(dropped_);
  }

  void Append(absl::string_view bytes) {
    // Moves what is left only when it is the smaller half, so that a byte is
    // moved once on average.
    if (2 * dropped_ >= buffer_.size()) {
      buffer_.erase(0, dropped_);
      dropped_ = 0;
    }
    buffer_.append(bytes.data(), bytes.size());
  }

  // Of the `count` first bytes; there are as many.
  void Drop(size_t count) {
    dropped_ += count;
    if (!empty()) return;
    // What one large value took is given back.
    if (buffer_.capacity() > kKeptBytesMax) buffer_ = std::string();
    buffer_.clear();
    dropped_ = 0;
  }

 private:
  static constexpr size_t kKeptBytesMax = 4096;

  std::string buffer_;
  size_t dropped_ = 0;
};

}  // namespace muonshard

#endif  // COLLECTIVES_TCP_BYTE_QUEUE_H_
