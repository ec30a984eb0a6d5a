// The gradients of one step, reduced: what `ShardedOptimizer::Finish` makes
// and `Step` consumes. There is no other way to step, so nothing can be stepped
// twice, stepped unreduced, or clipped after its update.
//
// Threads    Like a std::unique_ptr.
// Lifetime   Belongs to the optimizer that made it and does not outlive it.
//            One that is dropped leaves the step without an update on this
//            rank; the others wait for it until their deadline.

#ifndef OPTIMIZER_REDUCED_GRADIENTS_H_
#define OPTIMIZER_REDUCED_GRADIENTS_H_

#include <cstdint>
#include <utility>

namespace muonshard {

class ShardedOptimizer;

class ReducedGradients {
 public:
  ReducedGradients(ReducedGradients&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), step_(other.step_) {}
  ReducedGradients& operator=(ReducedGradients&& other) noexcept {
    owner_ = std::exchange(other.owner_, nullptr);
    step_ = other.step_;
    return *this;
  }
  ReducedGradients(const ReducedGradients&) = delete;
  ReducedGradients& operator=(const ReducedGradients&) = delete;

  // Which step they are of, from 1.
  int64_t step() const { return step_; }

  // False once moved from or consumed.
  bool valid() const { return owner_ != nullptr; }

 private:
  friend class ShardedOptimizer;
  ReducedGradients(const ShardedOptimizer* owner, int64_t step)
      : owner_(owner), step_(step) {}

  const ShardedOptimizer* owner_;
  int64_t step_;
};

}  // namespace muonshard

#endif  // OPTIMIZER_REDUCED_GRADIENTS_H_
