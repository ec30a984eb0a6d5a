// Who moves a communicator's messages: the rank that waits for one, and a task
// of the plugin's where no rank does.
//
// Blocking     Whoever waits polls a while and lets others run in between, and
//              then sleeps: no core is spun away from others. The service
//              sleeps in the system until a message, a deadline or the end of a
//              peer's process wakes it.
// Threads      Wait from any task; the rest from one at a time.

#ifndef PLUGINS_UCX_SERVICE_H_
#define PLUGINS_UCX_SERVICE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "plugins/support/host.h"
#include "plugins/support/outcome.h"
#include "plugins/ucx/communicator.h"

namespace muonshard::ucx {

// A process that a peer runs in, on this host.
struct PeerProcess {
  int32_t rank = 0;
  int64_t process = 0;
};

class Locked;

class Service {
 public:
  Service(const plugins::Host& host,
          std::shared_ptr<Communicator> communicator);
  // Stops the service, which lets what was sent get out first.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Once, before Start. A process that has ended already is lost at once.
  void Watch(const std::vector<PeerProcess>& peers);
  plugins::Outcome Start();

  // Of an operation; MUONSHARD_WAIT_EXPIRED if the deadline passed first.
  plugins::Outcome Wait(Operation& operation, int64_t deadline_ns);

  // The rank leaves; the service ends by itself.
  void Leave();
  // The service has ended. With the mutex.
  bool done() const { return done_; }

 private:
  struct Watched {
    int32_t rank;
    int descriptor;
  };

  void Run();
  void Sleep(plugins::HostLock& lock);
  void LookAtProcesses();
  void SeeOff(Locked& locked);
  void Wake();

  const plugins::Host& host_;
  const std::shared_ptr<Communicator> communicator_;
  // The service waits here while ranks move their messages themselves.
  plugins::HostCondition idle_;
  std::vector<Watched> watched_;
  int wake_descriptor_ = -1;
  muonshard_task task_ = nullptr;
  int32_t waiting_ranks_ = 0;
  // A rank has moved messages since the service looked.
  bool moved_ = false;
  bool done_ = false;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_SERVICE_H_
