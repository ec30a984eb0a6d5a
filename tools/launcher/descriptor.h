// A file descriptor with one owner.

#ifndef TOOLS_LAUNCHER_DESCRIPTOR_H_
#define TOOLS_LAUNCHER_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace muonshard {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { Close(); }

  bool open() const { return number_ >= 0; }
  // -1 if it is closed, which poll(2) passes over.
  int number() const { return number_; }

  void Close() {
    if (open()) close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

}  // namespace muonshard

#endif  // TOOLS_LAUNCHER_DESCRIPTOR_H_
