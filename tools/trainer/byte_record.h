// Values one after another as bytes, between processes of one build.

#ifndef TOOLS_TRAINER_BYTE_RECORD_H_
#define TOOLS_TRAINER_BYTE_RECORD_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"

namespace muonshard {

class ByteWriter {
 public:
  template <typename T>
  void Put(const T& value) {
    static_assert(std::is_arithmetic_v<T>);
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void PutText(absl::string_view text) {
    Put(uint64_t{text.size()});
    bytes_.append(text.data(), text.size());
  }
  template <typename T>
  void PutAll(const std::vector<T>& values) {
    Put(uint64_t{values.size()});
    for (const T& value : values) Put(value);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what a ByteWriter wrote, in the same order. What is not there is read
// as 0 or empty.
class ByteReader {
 public:
  // `bytes` outlive it.
  explicit ByteReader(absl::string_view bytes) : left_(bytes) {}

  template <typename T>
  void Take(T& value) {
    static_assert(std::is_arithmetic_v<T>);
    value = T{};
    const absl::string_view bytes = Bytes(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
  }
  absl::string_view TakeText() {
    uint64_t size = 0;
    Take(size);
    return Bytes(size);
  }
  template <typename T>
  void TakeAll(std::vector<T>& values) {
    uint64_t count = 0;
    Take(count);
    // A count that cannot be is no reason to ask for its memory.
    if (count > left_.size() / sizeof(T)) complete_ = false;
    values.assign(complete_ ? count : 0, T{});
    for (T& value : values) Take(value);
  }

  // Whether everything was there and nothing is left.
  bool exhausted() const { return complete_ && left_.empty(); }

 private:
  absl::string_view Bytes(uint64_t count) {
    if (count > left_.size()) complete_ = false;
    if (!complete_) return {};
    const absl::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }

  absl::string_view left_;
  bool complete_ = true;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_BYTE_RECORD_H_
