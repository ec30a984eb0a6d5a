#include "plugins/ucx/worker.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "collectives/plugin_abi.h"

namespace muonshard::ucx {
namespace {

using plugins::Outcome;

constexpr unsigned kMessageId = 1;

Outcome Failed(const std::string& what, ucs_status_t status) {
  return {.code = status == UCS_ERR_NO_MEMORY ? MUONSHARD_E_MEMORY
                                              : MUONSHARD_E_SYSTEM,
          .text = what + ": " + ucs_status_string(status)};
}

// What a request tells when it ends, with the head that it still needs.
struct Told {
  Transfer* transfer;
  std::vector<std::byte> head;
  std::string what;
};

void End(void* request, ucs_status_t status, void* argument) {
  const std::unique_ptr<Told> told(static_cast<Told*>(argument));
  ucp_request_free(request);
  told->transfer->Ended(status == UCS_OK ? Outcome{}
                                         : Failed(told->what, status));
}

void OnSent(void* request, ucs_status_t status, void* argument) {
  End(request, status, argument);
}

void OnFetched(void* request, ucs_status_t status, size_t, void* argument) {
  End(request, status, argument);
}

// What a nonblocking call has returned. Owned by UCX from here on if it goes
// on.
Outcome Settle(ucs_status_ptr_t result, std::unique_ptr<Told> told,
               bool* ended) {
  *ended = result == nullptr;
  if (UCS_PTR_IS_ERR(result)) {
    return Failed(told->what, UCS_PTR_STATUS(result));
  }
  if (result != nullptr) told.release();
  return {};
}

}  // namespace

Outcome Context::Open(std::shared_ptr<Context>* opened) {
  const char* const transports = std::getenv("UCX_TLS");
  const std::shared_ptr<Context> made(new Context);
  made->transports_ = transports != nullptr ? transports : "all";
  ucp_params_t parameters = {};
  parameters.field_mask =
      UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  parameters.mt_workers_shared = 1;
  ucp_config_t* config = nullptr;
  if (ucs_status_t s = ucp_config_read(nullptr, nullptr, &config);
      s != UCS_OK) {
    return Failed("the configuration of UCX cannot be read", s);
  }
  // Or endpoints that tell of a lost peer would not use shared memory. UCX
  // warns of settings that it has no use for.
  if (made->may_share_memory()) {
    (void)ucp_config_modify(config, "MM_ERROR_HANDLING", "y");
  }
  const ucs_status_t status = ucp_init(&parameters, config, &made->context_);
  ucp_config_release(config);
  if (status != UCS_OK) {
    return Failed("UCX finds nothing to use with UCX_TLS=" + made->transports_,
                  status);
  }
  *opened = made;
  return {};
}

bool Context::may_share_memory() const {
  // "^tcp" is all but that.
  const bool all_but = !transports_.empty() && transports_[0] == '^';
  for (const char* name : {"all", "shm", "sm", "mm", "posix", "sysv"}) {
    if (transports_.find(name) != std::string::npos) return !all_but;
  }
  return all_but;
}

Context::~Context() {
  if (context_ != nullptr) ucp_cleanup(context_);
}

Arrival::Arrival(ucp_worker_h worker, void* data, size_t bytes, bool is_here,
                 bool is_owned)
    : worker_(worker),
      data_(is_owned ? data : nullptr),
      bytes_(bytes),
      is_here_(is_here) {
  if (is_owned || bytes == 0) return;
  const auto* const begin = static_cast<const std::byte*>(data);
  copy_.assign(begin, begin + bytes);
}

Arrival::~Arrival() {
  if (data_ != nullptr) ucp_am_data_release(worker_, data_);
}

Outcome Arrival::Fetch(std::byte* to, Transfer* told, bool* ended) {
  *ended = true;
  if (bytes_ == 0) return {};
  if (is_here_) {
    std::memcpy(to, data_ == nullptr ? copy_.data() : data_, bytes_);
    return {};
  }
  auto request = std::make_unique<Told>(
      Told{.transfer = told, .head = {}, .what = "a message was not received"});
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.recv_am = OnFetched;
  parameters.user_data = request.get();
  // UCX owns the descriptor from here on, whatever comes of it.
  void* const descriptor = std::exchange(data_, nullptr);
  const ucs_status_ptr_t result =
      ucp_am_recv_data_nbx(worker_, descriptor, to, bytes_, &parameters);
  return Settle(result, std::move(request), ended);
}

Outcome Worker::Make(std::shared_ptr<Context> context, int32_t peers,
                     Receiver* receiver, std::unique_ptr<Worker>* made) {
  std::unique_ptr<Worker> worker(new Worker(std::move(context)));
  worker->receiver_ = receiver;
  worker->endpoints_.resize(static_cast<size_t>(peers));
  ucp_worker_params_t parameters = {};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (ucs_status_t s = ucp_worker_create(worker->context_->get(), &parameters,
                                         &worker->worker_);
      s != UCS_OK) {
    return Failed("UCX makes no worker", s);
  }
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                       UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.cb = &Worker::OnMessage;
  handler.arg = worker.get();
  if (ucs_status_t s =
          ucp_worker_set_am_recv_handler(worker->worker_, &handler);
      s != UCS_OK) {
    return Failed("UCX takes no active messages", s);
  }
  if (ucs_status_t s =
          ucp_worker_get_efd(worker->worker_, &worker->descriptor_);
      s != UCS_OK) {
    return Failed("UCX cannot wake who waits", s);
  }
  *made = std::move(worker);
  return {};
}

Worker::~Worker() {
  for (const Endpoint& endpoint : endpoints_) {
    if (endpoint.closing != nullptr) ucp_request_free(endpoint.closing);
  }
  if (flush_ != nullptr) ucp_request_free(flush_);
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
}

Outcome Worker::Address(std::string* address) const {
  ucp_address_t* text = nullptr;
  size_t bytes = 0;
  if (ucs_status_t s = ucp_worker_get_address(worker_, &text, &bytes);
      s != UCS_OK) {
    return Failed("a worker has no address", s);
  }
  address->assign(reinterpret_cast<const char*>(text), bytes);
  ucp_worker_release_address(worker_, text);
  return {};
}

Outcome Worker::Connect(int32_t peer, const std::string& address) {
  Endpoint& endpoint = endpoints_[static_cast<size_t>(peer)];
  endpoint.worker = this;
  endpoint.peer = peer;
  ucp_ep_params_t parameters = {};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                          UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {.cb = &Worker::OnFailure, .arg = &endpoint};
  if (ucs_status_t s = ucp_ep_create(worker_, &parameters, &endpoint.handle);
      s != UCS_OK) {
    return Failed("UCX cannot reach rank " + std::to_string(peer) +
                      " over UCX_TLS=" + context_->transports(),
                  s);
  }
  return {};
}

Outcome Worker::Send(int32_t peer, std::vector<std::byte> head,
                     std::span<const std::byte> payload, Transfer* told,
                     bool* ended) {
  auto request = std::make_unique<Told>(Told{
      .transfer = told,
      .head = std::move(head),
      .what = "a message to rank " + std::to_string(peer) + " was not sent"});
  if (endpoints_[static_cast<size_t>(peer)].handle == nullptr) {
    return {.code = MUONSHARD_E_STATE,
            .text = request->what + ": its endpoint is closed"};
  }
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.send = OnSent;
  parameters.user_data = request.get();
  const ucs_status_ptr_t result =
      ucp_am_send_nbx(endpoints_[static_cast<size_t>(peer)].handle, kMessageId,
                      request->head.data(), request->head.size(),
                      payload.data(), payload.size(), &parameters);
  return Settle(result, std::move(request), ended);
}

bool Worker::Flush() {
  if (flush_ == nullptr) {
    ucp_request_param_t parameters = {};
    const ucs_status_ptr_t result = ucp_worker_flush_nbx(worker_, &parameters);
    if (result == nullptr || UCS_PTR_IS_ERR(result)) return true;
    flush_ = result;
  }
  return ucp_request_check_status(flush_) != UCS_INPROGRESS;
}

void Worker::Close() {
  for (Endpoint& endpoint : endpoints_) {
    if (endpoint.handle == nullptr) continue;
    ucp_request_param_t parameters = {};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const ucs_status_ptr_t result =
        ucp_ep_close_nbx(std::exchange(endpoint.handle, nullptr), &parameters);
    if (result != nullptr && !UCS_PTR_IS_ERR(result)) endpoint.closing = result;
  }
}

bool Worker::IsClosed() {
  bool closed = true;
  for (Endpoint& endpoint : endpoints_) {
    if (endpoint.closing == nullptr) continue;
    if (ucp_request_check_status(endpoint.closing) == UCS_INPROGRESS) {
      closed = false;
      continue;
    }
    ucp_request_free(std::exchange(endpoint.closing, nullptr));
  }
  return closed;
}

void Worker::OnFailure(void* argument, ucp_ep_h, ucs_status_t status) {
  const auto* const endpoint = static_cast<const Endpoint*>(argument);
  endpoint->worker->receiver_->Lost(endpoint->peer, ucs_status_string(status));
}

ucs_status_t Worker::OnMessage(void* argument, const void* head,
                               size_t head_bytes, void* data, size_t bytes,
                               const ucp_am_recv_param_t* parameters) {
  auto* const worker = static_cast<Worker*>(argument);
  const bool is_here =
      (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  const bool is_owned =
      !is_here || (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
  const bool is_kept = is_owned && bytes > 0;
  worker->receiver_->Arrived(
      {static_cast<const std::byte*>(head), head_bytes},
      std::make_unique<Arrival>(worker->worker_, data, bytes, is_here,
                                is_kept));
  return is_kept ? UCS_INPROGRESS : UCS_OK;
}

}  // namespace muonshard::ucx
