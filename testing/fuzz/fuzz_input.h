// Reads choices and payloads from the bytes that a fuzz target is given.
//
// Result       When the bytes are used up, zeros and empty texts.

#ifndef TESTING_FUZZ_FUZZ_INPUT_H_
#define TESTING_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace muonshard::testing {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : next_(data), left_(size) {}

  bool empty() const { return left_ == 0; }

  uint8_t TakeByte() {
    if (left_ == 0) return 0;
    --left_;
    return *next_++;
  }

  // At most `bytes` bytes.
  std::string TakeBytes(size_t bytes) {
    const size_t taken = std::min(bytes, left_);
    std::string text(next_, next_ + taken);
    next_ += taken;
    left_ -= taken;
    return text;
  }

  std::string TakeRest() { return TakeBytes(left_); }

 private:
  const uint8_t* next_;
  size_t left_;
};

}  // namespace muonshard::testing

#endif  // TESTING_FUZZ_FUZZ_INPUT_H_
