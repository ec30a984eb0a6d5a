// Stacks of their own within one thread, and the switch from one to another.
// The address and thread sanitizers are told of each switch.
//
// Threads      One thread makes, switches and destroys all fibers of a pool.
// Memory       A pool outlives its fibers. A fiber is destroyed by another one.
//              What lies on the stack of a fiber that has not ended is dropped
//              without being destroyed.
// Errors       The process ends when the system has no memory for a stack.
// Cost         A switch saves eight registers. Stacks are mapped once, below a
//              page that traps, and used again.

#ifndef COLLECTIVES_RUNTIME_SIM_FIBER_H_
#define COLLECTIVES_RUNTIME_SIM_FIBER_H_

#include <cstddef>
#include <vector>

namespace muonshard {

class FiberStackPool {
 public:
  // Rounds `stack_bytes` up to whole pages, and to some kilobytes at least.
  explicit FiberStackPool(size_t stack_bytes);
  ~FiberStackPool();
  FiberStackPool(const FiberStackPool&) = delete;
  FiberStackPool& operator=(const FiberStackPool&) = delete;

  size_t stack_bytes() const { return stack_bytes_; }

  // Returns the lowest address of a stack.
  void* Take();
  void Return(void* stack);

 private:
  const size_t page_bytes_;
  const size_t stack_bytes_;
  std::vector<void*> free_;
};

class Fiber {
 public:
  // Never returns: it ends in `SwitchForGood`.
  using Entry = void (*)(void* argument);

  // The calling thread on its own stack.
  Fiber();
  // Begins with `entry(argument)` at the first switch to it.
  Fiber(FiberStackPool& stacks, Entry entry, void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves `from`, the running fiber, for `to`. Returns when another fiber
  // switches back to `from`.
  static void Switch(Fiber& from, Fiber& to);
  // The same for a fiber that is never switched to again.
  [[noreturn]] static void SwitchForGood(Fiber& from, Fiber& to);

 private:
  struct Arrival;
  static void Jump(Fiber& from, Fiber& to, bool from_ends);

  // Null: the thread's own stack.
  FiberStackPool* const stacks_;
  void* const pooled_stack_;
  const Entry entry_;
  void* const argument_;
  // Where this fiber goes on: a context of Boost.
  void* context_ = nullptr;
  // The fiber that this one switches to, for one that begins there.
  Fiber* target_ = nullptr;
  // Lowest address and size of the stack, as the address sanitizer has it.
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  // What the sanitizers keep for this fiber.
  void* fake_stack_ = nullptr;
  void* tsan_fiber_ = nullptr;
};

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_SIM_FIBER_H_
