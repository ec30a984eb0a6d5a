#include "plugins/ucx/locked.h"

#include <utility>

namespace muonshard::ucx {

Locked::Locked(std::shared_ptr<Communicator> communicator)
    : communicator_(std::move(communicator)), lock_(communicator_->mutex()) {}

Locked::~Locked() { RunCallbacks(); }

void Locked::RunCallbacks() {
  for (;;) {
    const auto callbacks = communicator_->TakeCallbacks();
    if (callbacks.empty()) return;
    lock_.Unlock();
    for (const auto& callback : callbacks) callback();
    lock_.Lock();
  }
}

}  // namespace muonshard::ucx
