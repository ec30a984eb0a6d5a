// One UCP worker with an endpoint to each peer: messages, and nothing of what
// they mean.
//
// Threads      One at a time: whoever uses it holds its communicator's mutex.
// Memory       What is sent belongs to the worker until its Ended is called,
//              so does what is received into. One that is destroyed calls none.
// Errors       MUONSHARD_E_SYSTEM with UCX's words and its code.

#ifndef PLUGINS_UCX_WORKER_H_
#define PLUGINS_UCX_WORKER_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plugins/support/outcome.h"

namespace muonshard::ucx {

// A ucp_context: what transports there are. Shared by workers.
class Context {
 public:
  // Transports and devices are those of the environment, UCX_TLS and
  // UCX_NET_DEVICES.
  static plugins::Outcome Open(std::shared_ptr<Context>* opened);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ucp_context_h get() const { return context_; }
  // What UCX_TLS was, for reports.
  const std::string& transports() const { return transports_; }
  // Whether ranks of one host may talk through memory.
  bool may_share_memory() const;

 private:
  Context() = default;

  ucp_context_h context_ = nullptr;
  std::string transports_;
};

// Told once how it ended.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void Ended(const plugins::Outcome& outcome) = 0;
};

// A message that has come. Its payload is either here or still at the sender,
// which the receiver fetches it from.
class Arrival {
 public:
  Arrival(ucp_worker_h worker, void* data, size_t bytes, bool is_here,
          bool is_owned);
  ~Arrival();
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  size_t bytes() const { return bytes_; }

  // Puts the payload to `to`, once; `told` hears of what has not `*ended`.
  plugins::Outcome Fetch(std::byte* to, Transfer* told, bool* ended);

 private:
  const ucp_worker_h worker_;
  void* data_;
  const size_t bytes_;
  const bool is_here_;
  std::vector<std::byte> copy_;
};

// Hears of every message, in the order of each sender's.
class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void Arrived(std::span<const std::byte> head,
                       std::unique_ptr<Arrival> arrival) = 0;
  // There is no way to `peer` any more. What was sent to it has ended or will.
  virtual void Lost(int32_t peer, const std::string& why) = 0;
};

class Worker {
 public:
  // `receiver` outlives the worker.
  static plugins::Outcome Make(std::shared_ptr<Context> context, int32_t peers,
                               Receiver* receiver,
                               std::unique_ptr<Worker>* made);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // For peers to connect to.
  plugins::Outcome Address(std::string* address) const;
  plugins::Outcome Connect(int32_t peer, const std::string& address);

  // `head` is kept until the end, `payload` must be. `told` hears only of what
  // has not ended on return.
  plugins::Outcome Send(int32_t peer, std::vector<std::byte> head,
                        std::span<const std::byte> payload, Transfer* told,
                        bool* ended);

  // Does what can be done now; returns whether there was anything.
  bool Progress() { return ucp_worker_progress(worker_) != 0; }

  // Readable when there is something to do, once Arm has returned true.
  int descriptor() const { return descriptor_; }
  // False: there is something to do already.
  bool Arm() { return ucp_worker_arm(worker_) == UCS_OK; }

  // Whether what was sent has got out. To be called, with Progress, until then.
  bool Flush();
  // Closes all endpoints, and drops what has not got out: each Transfer is
  // told.
  void Close();
  // Whether they are closed. To be called, with Progress, until then.
  bool IsClosed();

 private:
  explicit Worker(std::shared_ptr<Context> context)
      : context_(std::move(context)) {}

  struct Endpoint {
    Worker* worker = nullptr;
    int32_t peer = 0;
    ucp_ep_h handle = nullptr;
    void* closing = nullptr;  // The request.
  };

  static void OnFailure(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t OnMessage(void* argument, const void* head,
                                size_t head_bytes, void* data, size_t bytes,
                                const ucp_am_recv_param_t* parameters);

  const std::shared_ptr<Context> context_;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
  Receiver* receiver_ = nullptr;
  std::vector<Endpoint> endpoints_;  // By peer.
  void* flush_ = nullptr;            // The request.
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_WORKER_H_
