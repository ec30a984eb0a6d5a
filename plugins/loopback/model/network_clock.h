// Operations that take as long as a network says: the time of the plan.
//
// A task of its own waits, through the host, until the next operation ends. On
// a simulated host that moves the clock. It starts with the first operation and
// ends when the last plugin that was opened on the network is closed.
//
// Threads      Everything from any task; all but Open wants the domain's mutex
//              held.
// Memory       Shared by the plugins that were opened on it and by groups. The
//              domain finds it again while one of these plugins is open.

#ifndef PLUGINS_LOOPBACK_MODEL_NETWORK_CLOCK_H_
#define PLUGINS_LOOPBACK_MODEL_NETWORK_CLOCK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "plugins/loopback/call.h"
#include "plugins/loopback/domain.h"
#include "plugins/loopback/host.h"
#include "plugins/loopback/model/flow.h"
#include "plugins/loopback/model/links.h"
#include "plugins/loopback/outcome.h"

namespace muonshard::loopback {

class NetworkClock : public std::enable_shared_from_this<NetworkClock> {
 public:
  // Called with the mutex held. The outcome is an error if the host cannot
  // start a task.
  using Ended = std::function<void(const Outcome& outcome)>;

  // For a plugin that is opened with `text` in the option `network`, none for
  // an empty text; whoever gives the same text in the same domain shares the
  // links. An error for a bad text, for a plugin that looks into messages, of
  // which there are none, and, MUONSHARD_E_UNSUPPORTED, for a host whose clock
  // runs by itself.
  static Outcome Open(const std::shared_ptr<Domain>& domain,
                      const std::string& text, bool makes_messages,
                      std::shared_ptr<NetworkClock>* clock);
  // Ends the task with the last plugin. Blocks.
  void Close(HostLock& lock);

  NetworkClock(std::shared_ptr<Domain> domain, std::string text,
               const Network& network);
  NetworkClock(const NetworkClock&) = delete;
  NetworkClock& operator=(const NetworkClock&) = delete;

  // Whether `rank` of the world may join a group of `size` ranks.
  Outcome CheckRanks(int32_t rank, int32_t size) const;

  // Begins an operation of `ranks` of the world, as in StagesOf. False if it
  // takes no time; else `ended` is called when it has ended.
  bool Start(std::span<const int32_t> ranks, std::span<const Call* const> calls,
             const void* owner, Ended ended);
  // Forgets what `owner` has begun.
  void Cancel(const void* owner);

 private:
  struct Operation {
    const void* owner;
    Ended ended;
  };

  static void Run(void* argument) noexcept;
  void RunUntilStopped();
  void StartTask();
  void EndOperations();
  double Now() const;  // Since origin_ns_.

  const std::shared_ptr<Domain> domain_;
  const std::string text_;
  const Links links_;
  FlowEngine engine_;  // Its time begins at origin_ns_.
  const int64_t origin_ns_;
  std::map<uint64_t, Operation> operations_;  // By the number of their flow.
  uint64_t started_ = 0;
  int32_t plugins_ = 0;

  HostCondition condition_;
  muonshard_task task_ = nullptr;
  bool starting_ = false;
  bool stop_ = false;
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_MODEL_NETWORK_CLOCK_H_
