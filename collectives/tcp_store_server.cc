#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/tcp/real_time.h"
#include "collectives/tcp/socket.h"
#include "collectives/tcp/store_contents.h"
#include "collectives/tcp/store_proof.h"
#include "collectives/tcp/store_session.h"
#include "collectives/tcp/stranger_log.h"
#include "collectives/tcp_store.h"

namespace muonshard {
namespace {

// What an event of epoll is about; connections are numbered from the last.
constexpr uint64_t kListeningId = 0;
constexpr uint64_t kStopId = 1;
constexpr uint64_t kFirstConnectionId = 2;

constexpr int kEventCountMax = 64;
// At a time, so that a flood of strangers does not keep clients waiting.
constexpr int kAcceptCountMax = 16;
constexpr size_t kReadBytesMax = size_t{1} << 16;
// When the process has no descriptor left.
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

struct Connection {
  Connection(Descriptor connected, std::string from, TcpStoreJob& job,
             uint64_t id, std::string nonce)
      : socket(std::move(connected)),
        address(std::move(from)),
        session(job, id, std::move(nonce)) {}

  const Descriptor socket;
  const std::string address;
  TcpStoreSession session;
  uint32_t events = EPOLLIN;  // That epoll watches for.
};

class Server final : public TcpStoreServer {
 public:
  Server(Runtime& runtime, const TcpStoreOptions& options, Descriptor listening,
         Descriptor epoll, Descriptor stop)
      : runtime_(runtime),
        port_(PortOf(listening)),
        name_(absl::StrCat("tcp store at ", HostAndPort(options.host, port_))),
        mutex_(runtime.NewMutex()),
        changed_(runtime.NewCondition()),
        listening_(std::move(listening)),
        epoll_(std::move(epoll)),
        stop_(std::move(stop)),
        strangers_log_(runtime, name_),
        job_(options.secret, options.limits) {
    Watch(listening_, kListeningId, EPOLLIN, EPOLL_CTL_ADD);
    Watch(stop_, kStopId, EPOLLIN, EPOLL_CTL_ADD);
    task_ = runtime.Start("tcp_store", TaskKind::kService, [this] { Serve(); });
  }

  ~Server() override {
    const uint64_t one = 1;
    // Cannot fail: nobody else writes, and the counter is far from its end.
    [[maybe_unused]] const ssize_t written =
        write(stop_.number(), &one, sizeof(one));
    task_->Join();
    if (lost_count_ > 1) {
      runtime_.Log(kLogWarning, absl::StrCat(name_, ": lost ", lost_count_ - 1,
                                             " more clients"));
    }
  }

  uint16_t port() const override { return port_; }

  absl::Status WaitForGoodbyes(int32_t client_count,
                               absl::Time deadline) override {
    const MutexLock lock(*mutex_);
    while (gone_count_ < client_count) {
      if (changed_->Wait(*mutex_, deadline)) continue;
      if (gone_count_ >= client_count) break;
      return absl::DeadlineExceededError(
          absl::StrCat(name_, ": ", client_count - gone_count_, " of ",
                       client_count, " clients have not said goodbye"));
    }
    return absl::OkStatus();
  }

 private:
  using Connections = std::unordered_map<uint64_t, std::unique_ptr<Connection>>;

  void Watch(const Descriptor& descriptor, uint64_t id, uint32_t events,
             int operation) {
    epoll_event event = {.events = events, .data = {.u64 = id}};
    epoll_ctl(epoll_.number(), operation, descriptor.number(), &event);
  }

  void Serve() {
    epoll_event events[kEventCountMax];
    while (!is_stopped_) {
      const absl::Time now = runtime_.Now();
      EndLateStrangers(now);
      if (now >= accept_again_) ResumeAccepting();
      const int count = epoll_wait(epoll_.number(), events, kEventCountMax,
                                   MillisecondsUntil(NextInstant(), now));
      for (int i = 0; i < count; ++i) Handle(events[i].data.u64);
      SettleWoken();
    }
  }

  absl::Time NextInstant() const {
    const absl::Time stranger_ends =
        strangers_.empty()
            ? absl::InfiniteFuture()
            : strangers_.begin()->second + job_.limits.stranger_timeout;
    return std::min(stranger_ends, accept_again_);
  }

  void Handle(uint64_t id) {
    if (id == kStopId) {
      is_stopped_ = true;
    } else if (id == kListeningId) {
      Accept();
    } else if (const auto found = connections_.find(id);
               found != connections_.end()) {
      // Else it was ended since the event was reported.
      Read(*found->second);
    }
  }

  void Accept() {
    for (int i = 0; i < kAcceptCountMax; ++i) {
      std::string address;
      absl::StatusOr<Descriptor> socket = AcceptFrom(listening_, &address);
      if (!socket.ok()) {
        PauseAccepting(socket.status());
        return;
      }
      if (!socket->is_open()) return;
      Welcome(*std::move(socket), std::move(address));
    }
  }

  void Welcome(Descriptor socket, std::string address) {
    absl::StatusOr<std::string> nonce = NewStoreNonce();
    if (!nonce.ok()) return;
    const auto stranger_count_max =
        static_cast<size_t>(job_.limits.stranger_count_max);
    if (strangers_.size() >= stranger_count_max) {
      EndStranger(strangers_.begin()->first, "too many of them");
    }
    const uint64_t id = next_id_++;
    Watch(socket, id, EPOLLIN, EPOLL_CTL_ADD);
    strangers_.emplace(id, runtime_.Now());
    connections_.emplace(
        id, std::make_unique<Connection>(std::move(socket), std::move(address),
                                         job_, id, *std::move(nonce)));
  }

  // A connection that waits to be accepted would wake the task for ever.
  void PauseAccepting(const absl::Status& why) {
    if (!has_paused_) {
      runtime_.Log(
          kLogError,
          absl::StrCat(name_, ": accepts nobody now: ", why.message()));
    }
    has_paused_ = true;
    accept_again_ = runtime_.Now() + kAcceptPause;
    Watch(listening_, kListeningId, 0, EPOLL_CTL_MOD);
  }

  void ResumeAccepting() {
    accept_again_ = absl::InfiniteFuture();
    Watch(listening_, kListeningId, EPOLLIN, EPOLL_CTL_MOD);
  }

  void Read(Connection& connection) {
    if (connection.session.wants_input()) {
      const Transfer read =
          ReadSome(connection.socket, read_buffer_.get(), kReadBytesMax);
      if (read.bytes == 0 && !read.would_block) {
        End(connection, read.error == 0 ? "it closed its connection"
                                        : std::strerror(read.error));
        return;
      }
      connection.session.Receive(
          absl::string_view(read_buffer_.get(), read.bytes));
    }
    Settle(connection);
  }

  // Sends what can be sent, and ends or goes on watching the connection.
  void Settle(Connection& connection) {
    TcpStoreSession& session = connection.session;
    if (session.was_client()) strangers_.erase(session.id());
    while (!session.output().empty()) {
      const Transfer sent = SendSome(connection.socket, session.output());
      if (sent.error != 0) {
        End(connection, std::strerror(sent.error));
        return;
      }
      if (sent.would_block) break;
      session.Sent(sent.bytes);
    }
    switch (session.state()) {
      case TcpStoreSession::State::kGoodbye:
        End(connection, "");
        return;
      case TcpStoreSession::State::kBroken:
        End(connection, session.failure().message());
        return;
      default:
        break;
    }
    const uint32_t events = (session.wants_input() ? EPOLLIN : 0u) |
                            (session.output().empty() ? 0u : EPOLLOUT);
    if (events == connection.events) return;
    connection.events = events;
    Watch(connection.socket, session.id(), events, EPOLL_CTL_MOD);
  }

  void SettleWoken() {
    while (!job_.woken.empty()) {
      TcpStoreSession& session = *job_.woken.back();
      job_.woken.pop_back();
      session.Sent(0);
      Settle(*connections_.at(session.id()));
    }
  }

  void EndLateStrangers(absl::Time now) {
    while (!strangers_.empty() &&
           strangers_.begin()->second + job_.limits.stranger_timeout <= now) {
      EndStranger(strangers_.begin()->first,
                  "it did not prove in time that it "
                  "knows the secret");
    }
  }

  void EndStranger(uint64_t id, absl::string_view why) {
    End(*connections_.at(id), why);
  }

  void End(Connection& connection, absl::string_view why) {
    const uint64_t id = connection.session.id();
    if (strangers_.erase(id) > 0) {
      strangers_log_.Note(connection.address, why);
    } else {
      LogEndOfClient(connection, why);
      const MutexLock lock(*mutex_);
      ++gone_count_;
      changed_->NotifyAll();
    }
    connections_.erase(id);
  }

  void LogEndOfClient(const Connection& connection, absl::string_view why) {
    switch (connection.session.state()) {
      case TcpStoreSession::State::kGoodbye:
        return;
      case TcpStoreSession::State::kBroken:
        runtime_.Log(kLogError, absl::StrCat(name_, ": ended a client at ",
                                             connection.address, ": ", why));
        return;
      default:
        break;
    }
    // When one process of a job dies, the others are often ended too.
    if (++lost_count_ > 1) return;
    runtime_.Log(kLogWarning,
                 absl::StrCat(name_, ": lost a client at ", connection.address,
                              " that said no goodbye: ", why));
  }

  Runtime& runtime_;
  const uint16_t port_;
  const std::string name_;
  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> changed_;
  int32_t gone_count_ = 0;  // Guarded by mutex_.

  // The rest belongs to the task.
  const Descriptor listening_;
  const Descriptor epoll_;
  const Descriptor stop_;
  const std::unique_ptr<char[]> read_buffer_{new char[kReadBytesMax]};
  bool is_stopped_ = false;
  bool has_paused_ = false;
  int64_t lost_count_ = 0;
  absl::Time accept_again_ = absl::InfiniteFuture();
  StrangerLog strangers_log_;
  TcpStoreJob job_;  // Outlives the sessions.
  uint64_t next_id_ = kFirstConnectionId;
  // When each began; ids ascend with time.
  std::map<uint64_t, absl::Time> strangers_;
  Connections connections_;
  std::unique_ptr<Task> task_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TcpStoreServer>> TcpStoreServer::Listen(
    Runtime& runtime, const TcpStoreOptions& options) {
  if (absl::Status s = CheckStoreSecret(options.secret); !s.ok()) return s;
  if (absl::Status s = CheckTcpStoreLimits(options.limits); !s.ok()) return s;
  if (options.host.empty()) {
    return absl::InvalidArgumentError(
        "tcp store: want the host to listen on, got none");
  }
  if (absl::Status s = CheckRealTime(runtime, "tcp store"); !s.ok()) return s;
  absl::StatusOr<Descriptor> listening = ListenOn(options.host, options.port);
  if (!listening.ok()) {
    return absl::UnavailableError(
        absl::StrCat("tcp store: ", listening.status().message()));
  }
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  Descriptor stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.is_open() || !stop.is_open()) {
    return absl::UnavailableError(absl::StrCat(
        "tcp store: cannot serve ", HostAndPort(options.host, options.port),
        ": ", std::strerror(errno)));
  }
  return std::make_unique<Server>(runtime, options, *std::move(listening),
                                  std::move(epoll), std::move(stop));
}

}  // namespace muonshard
