// The mutex of a communicator, with what is to be called without it.

#ifndef PLUGINS_UCX_LOCKED_H_
#define PLUGINS_UCX_LOCKED_H_

#include <memory>

#include "plugins/support/host.h"
#include "plugins/ucx/communicator.h"

namespace muonshard::ucx {

// Holds the mutex of a communicator; then calls what is to be called.
class Locked {
 public:
  explicit Locked(std::shared_ptr<Communicator> communicator);
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  plugins::HostLock& lock() { return lock_; }
  // Releases the mutex for the time of the callbacks, if there are any.
  void RunCallbacks();

 private:
  const std::shared_ptr<Communicator> communicator_;
  plugins::HostLock lock_;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_LOCKED_H_
