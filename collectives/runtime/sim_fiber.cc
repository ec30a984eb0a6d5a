#include "collectives/runtime/sim_fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "collectives/runtime/log_line.h"
#include "collectives/runtime/runtime.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace muonshard {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

// Room for the frames of a sanitizer's own report.
constexpr size_t kStackBytesMin = size_t{64} << 10;

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

char* Bytes(void* address) { return static_cast<char*>(address); }

}  // namespace

FiberStackPool::FiberStackPool(size_t stack_bytes)
    : page_bytes_(PageBytes()),
      stack_bytes_(
          RoundUp(std::max(stack_bytes, kStackBytesMin), page_bytes_)) {}

FiberStackPool::~FiberStackPool() {
  for (void* stack : free_) {
    munmap(Bytes(stack) - page_bytes_, page_bytes_ + stack_bytes_);
  }
}

void* FiberStackPool::Take() {
  if (!free_.empty()) {
    void* const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void* const mapped =
      mmap(nullptr, page_bytes_ + stack_bytes_, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  // The lowest page traps a task that needs more than its stack.
  if (mapped == MAP_FAILED || mprotect(mapped, page_bytes_, PROT_NONE) != 0) {
    WriteLogLine(kLogError, absl::StrCat("no memory for the stack of a task: ",
                                         stack_bytes_, " bytes wanted"));
    std::abort();
  }
  return Bytes(mapped) + page_bytes_;
}

void FiberStackPool::Return(void* stack) {
#ifdef __SANITIZE_ADDRESS__
  // The frames that were live at the end still poison it.
  __asan_unpoison_memory_region(stack, stack_bytes_);
#endif
  free_.push_back(stack);
}

Fiber::Fiber()
    : stacks_(nullptr),
      pooled_stack_(nullptr),
      entry_(nullptr),
      argument_(nullptr) {
#ifdef __SANITIZE_THREAD__
  tsan_fiber_ = __tsan_get_current_fiber();
#endif
}

// What a fiber does when it goes on.
struct Fiber::Arrival {
  static void At(Fiber& self, const transfer_t& transfer) {
    Fiber& previous = *static_cast<Fiber*>(transfer.data);
    previous.context_ = transfer.fctx;
#ifdef __SANITIZE_ADDRESS__
    // The first arrival from a thread's own stack is what tells its bounds.
    __sanitizer_finish_switch_fiber(self.fake_stack_, &previous.stack_,
                                    &previous.stack_bytes_);
#else
    static_cast<void>(self);
#endif
  }

  static void AtEntry(transfer_t transfer) {
    Fiber& self = *static_cast<Fiber*>(transfer.data)->target_;
    At(self, transfer);
    self.entry_(self.argument_);
  }
};

Fiber::Fiber(FiberStackPool& stacks, Entry entry, void* argument)
    : stacks_(&stacks),
      pooled_stack_(stacks.Take()),
      entry_(entry),
      argument_(argument),
      stack_(pooled_stack_),
      stack_bytes_(stacks.stack_bytes()) {
  context_ = make_fcontext(Bytes(pooled_stack_) + stack_bytes_, stack_bytes_,
                           &Arrival::AtEntry);
#ifdef __SANITIZE_THREAD__
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  if (stacks_ == nullptr) return;
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(tsan_fiber_);
#endif
  stacks_->Return(pooled_stack_);
}

void Fiber::Jump(Fiber& from, Fiber& to, bool from_ends) {
  from.target_ = &to;
#ifdef __SANITIZE_ADDRESS__
  // Without a place to save it, the fake stack of `from` is freed.
  __sanitizer_start_switch_fiber(from_ends ? nullptr : &from.fake_stack_,
                                 to.stack_, to.stack_bytes_);
#else
  static_cast<void>(from_ends);
#endif
#ifdef __SANITIZE_THREAD__
  // In this function and not in one of its own: the sanitizer counts calls and
  // returns for each fiber.
  __tsan_switch_to_fiber(to.tsan_fiber_, 0);
#endif
  Arrival::At(from, jump_fcontext(to.context_, &from));
}

void Fiber::Switch(Fiber& from, Fiber& to) { Jump(from, to, false); }

void Fiber::SwitchForGood(Fiber& from, Fiber& to) {
  Jump(from, to, true);
  std::abort();
}

}  // namespace muonshard
