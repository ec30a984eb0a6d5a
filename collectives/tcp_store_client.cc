#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/tcp/byte_queue.h"
#include "collectives/tcp/real_time.h"
#include "collectives/tcp/socket.h"
#include "collectives/tcp/store_handshake.h"
#include "collectives/tcp/store_proof.h"
#include "collectives/tcp/store_protocol.h"
#include "collectives/tcp_store.h"

namespace muonshard {
namespace {

// Of one attempt to connect: a server that drops clients among too many
// strangers may have a place for the next.
constexpr absl::Duration kAttemptTimeout = absl::Seconds(10);
constexpr absl::Duration kPauseMin = absl::Milliseconds(10);
constexpr absl::Duration kPauseMax = absl::Milliseconds(500);
// A server that does not answer for so long is as good as gone.
constexpr absl::Duration kAnswerTimeout = absl::Seconds(30);
// For the last word on a Get whose deadline has passed.
constexpr absl::Duration kCancelTimeout = absl::Seconds(5);
constexpr absl::Duration kGoodbyeTimeout = absl::Seconds(1);
constexpr size_t kReadBytesMax = size_t{1} << 16;

// A reply that owns its text.
struct Answer {
  StoreReplyType type = StoreReplyType::kDone;
  std::string value;
  int64_t sum = 0;
  absl::Status refusal;
};

// A call that waits for its reply.
struct PendingCall {
  std::unique_ptr<Condition> changed;
  std::optional<Answer> answer;
};

// One connection for all tasks. Whoever waits for a reply when nobody reads
// from the connection reads for all, until it has its own; then another does.
class TcpStore final : public Store {
 public:
  TcpStore(Runtime& runtime, std::string name, StoreConnection connection,
           Descriptor epoll)
      : runtime_(runtime),
        name_(std::move(name)),
        value_bytes_max_(connection.value_bytes_max),
        socket_(std::move(connection.socket)),
        epoll_(std::move(epoll)),
        mutex_(runtime.NewMutex()) {}

  ~TcpStore() override { SayGoodbye(); }

  absl::Status Put(absl::string_view key, absl::string_view value) override {
    if (absl::Status s = CheckStoreKey(key); !s.ok()) return s;
    if (value.size() > value_bytes_max_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(name_, ": at most ", value_bytes_max_,
                       " bytes in a value, got ", value.size()));
    }
    return Call({.type = StoreRequestType::kPut, .key = key, .value = value})
        .status();
  }

  absl::StatusOr<std::string> Get(absl::string_view key,
                                  absl::Time deadline) override {
    if (absl::Status s = CheckStoreKey(key); !s.ok()) return s;
    const MutexLock lock(*mutex_);
    StoreRequest request = {.type = StoreRequestType::kGet, .key = key};
    PendingCall& call = Begin(request);
    if (!Wait(call, deadline)) {
      // What came meanwhile is still the answer.
      Send({.type = StoreRequestType::kCancel, .id = request.id});
      Wait(call, runtime_.Now() + kCancelTimeout);
    }
    absl::StatusOr<Answer> answer = End(request.id);
    if (!answer.ok()) return answer.status();
    if (answer->type == StoreReplyType::kValue) return std::move(answer->value);
    return absl::DeadlineExceededError(absl::StrCat(
        "key \"", key, "\" did not come into the ", name_,
        answer->type == StoreReplyType::kAbsent ? "" : ", which is silent"));
  }

  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) override {
    if (absl::Status s = CheckStoreKey(key); !s.ok()) return s;
    const absl::StatusOr<Answer> answer =
        Call({.type = StoreRequestType::kAdd, .key = key, .delta = delta});
    if (!answer.ok()) return answer.status();
    return answer->sum;
  }

 private:
  absl::StatusOr<Answer> Call(StoreRequest request) {
    const MutexLock lock(*mutex_);
    PendingCall& call = Begin(request);
    if (!Wait(call, runtime_.Now() + kAnswerTimeout)) {
      Break(absl::StrCat("did not answer for ",
                         absl::FormatDuration(kAnswerTimeout)));
    }
    return End(request.id);
  }

  // All below with the mutex.

  // Gives the request an id and sends it.
  PendingCall& Begin(StoreRequest& request) {
    request.id = next_id_++;
    PendingCall& call = calls_[request.id];
    call.changed = runtime_.NewCondition();
    Send(request);
    return call;
  }

  // kDone if there is no answer and none is known to be impossible.
  absl::StatusOr<Answer> End(uint64_t id) {
    const auto call = calls_.find(id);
    const std::optional<Answer> answer = std::move(call->second.answer);
    calls_.erase(call);
    if (!is_read_ && !calls_.empty()) HandOver();
    if (!answer.has_value()) {
      if (!broken_.ok()) return broken_;
      return Answer();
    }
    if (answer->type == StoreReplyType::kRefused) return answer->refusal;
    return *answer;
  }

  void HandOver() {
    for (const auto& [id, call] : calls_) {
      if (call.answer.has_value()) continue;
      call.changed->NotifyOne();
      return;
    }
  }

  // Until there is an answer or none can come any more. False once the deadline
  // has passed.
  bool Wait(PendingCall& call, absl::Time deadline) {
    while (!call.answer.has_value() && broken_.ok()) {
      if (!is_read_) {
        ReadForAll(deadline);
      } else {
        call.changed->Wait(*mutex_, deadline);
      }
      if (runtime_.Now() >= deadline) break;
    }
    return call.answer.has_value() || !broken_.ok();
  }

  void ReadForAll(absl::Time deadline) {
    is_read_ = true;
    mutex_->Unlock();
    // Edge-triggered, so that it ends too when there is room again for what
    // another task could not send meanwhile.
    epoll_event event;
    epoll_wait(epoll_.number(), &event, 1,
               MillisecondsUntil(deadline, runtime_.Now()));
    mutex_->Lock();
    is_read_ = false;
    Flush();
    ReadReplies();
  }

  void Send(const StoreRequest& request) {
    if (!broken_.ok()) return;
    outgoing_.Append(EncodeRequest(request));
    Flush();
  }

  void Flush() {
    while (broken_.ok() && !outgoing_.empty()) {
      const Transfer sent = SendSome(socket_, outgoing_.bytes());
      if (sent.error != 0) Break(std::strerror(sent.error));
      if (sent.would_block) return;
      outgoing_.Drop(sent.bytes);
    }
  }

  // All that there is, because epoll tells of it once.
  void ReadReplies() {
    while (broken_.ok()) {
      const Transfer read =
          ReadSome(socket_, read_buffer_.get(), kReadBytesMax);
      if (read.would_block) return;
      if (read.bytes == 0) {
        Break(read.error == 0 ? "is gone" : std::strerror(read.error));
        return;
      }
      incoming_.Append(absl::string_view(read_buffer_.get(), read.bytes));
      TakeReplies();
    }
  }

  void TakeReplies() {
    while (true) {
      const auto frame =
          FirstFrame(incoming_.bytes(), value_bytes_max_ + kStoreFrameExtraMax);
      if (!frame.ok()) {
        Break(frame.status().message());
        return;
      }
      if (!frame->has_value()) return;
      const absl::StatusOr<StoreReply> reply =
          ParseReply(FrameContent(**frame));
      if (!reply.ok()) {
        Break(reply.status().message());
        return;
      }
      TakeReply(*reply);
      incoming_.Drop((*frame)->size());
    }
  }

  void TakeReply(const StoreReply& reply) {
    const auto call = calls_.find(reply.id);
    if (call == calls_.end()) return;  // It waits no longer.
    call->second.answer = Answer{.type = reply.type,
                                 .value = std::string(reply.value),
                                 .sum = reply.sum,
                                 .refusal = reply.refusal};
    call->second.changed->NotifyOne();
  }

  void Break(absl::string_view why) {
    broken_ = absl::UnavailableError(absl::StrCat(name_, " ", why));
    // Ends the wait of the task that reads for all. The others learn of it one
    // from the other, as each hands over.
    ShutDown(socket_);
  }

  void SayGoodbye() {
    const MutexLock lock(*mutex_);
    if (!broken_.ok()) return;
    const absl::Time deadline = runtime_.Now() + kGoodbyeTimeout;
    Send({.type = StoreRequestType::kGoodbye});
    while (broken_.ok() && !outgoing_.empty() &&
           WaitToWrite(runtime_, socket_, deadline)) {
      Flush();
    }
  }

  Runtime& runtime_;
  const std::string name_;
  const size_t value_bytes_max_;
  const Descriptor socket_;
  const Descriptor epoll_;
  const std::unique_ptr<Mutex> mutex_;
  // The rest is guarded by mutex_.
  absl::Status broken_;
  bool is_read_ = false;  // A task waits in ReadForAll.
  uint64_t next_id_ = 1;
  std::map<uint64_t, PendingCall> calls_;
  ByteQueue outgoing_;
  ByteQueue incoming_;
  const std::unique_ptr<char[]> read_buffer_{new char[kReadBytesMax]};
};

absl::StatusOr<StoreConnection> EnterBefore(Runtime& runtime,
                                            const std::string& host,
                                            uint16_t port,
                                            absl::string_view secret,
                                            absl::Time deadline) {
  const std::unique_ptr<Mutex> mutex = runtime.NewMutex();
  const std::unique_ptr<Condition> never = runtime.NewCondition();
  absl::Duration pause = kPauseMin;
  while (true) {
    const absl::Time attempt_end =
        std::min(deadline, runtime.Now() + kAttemptTimeout);
    absl::StatusOr<StoreConnection> connection =
        EnterTcpStore(runtime, host, port, secret, attempt_end);
    if (connection.ok()) return connection;
    const absl::Status why = connection.status();
    if (why.code() == absl::StatusCode::kNotFound) {
      return absl::UnavailableError(why.message());
    }
    if (why.code() != absl::StatusCode::kUnavailable) return why;
    const absl::Time now = runtime.Now();
    if (now >= deadline) return why;
    const MutexLock lock(*mutex);
    never->Wait(*mutex, std::min(deadline, now + pause));
    pause = std::min(2 * pause, kPauseMax);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> ConnectTcpStore(Runtime& runtime,
                                                       absl::string_view host,
                                                       uint16_t port,
                                                       absl::string_view secret,
                                                       absl::Time deadline) {
  if (absl::Status s = CheckStoreSecret(secret); !s.ok()) return s;
  if (host.empty() || port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tcp store: want a host and a port to connect to, got ",
                     HostAndPort(host, port)));
  }
  if (absl::Status s = CheckRealTime(runtime, "tcp store"); !s.ok()) return s;
  absl::StatusOr<StoreConnection> connection =
      EnterBefore(runtime, std::string(host), port, secret, deadline);
  if (!connection.ok()) return connection.status();
  const std::string name = absl::StrCat("store at ", HostAndPort(host, port));
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {}};
  if (!epoll.is_open() || epoll_ctl(epoll.number(), EPOLL_CTL_ADD,
                                    connection->socket.number(), &event) != 0) {
    return absl::UnavailableError(
        absl::StrCat(name, ": ", std::strerror(errno)));
  }
  return std::make_unique<TcpStore>(runtime, name, *std::move(connection),
                                    std::move(epoll));
}

}  // namespace muonshard
