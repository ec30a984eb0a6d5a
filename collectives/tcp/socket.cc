#include "collectives/tcp/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

// A host that is gone is noticed after the first and three times the second
// without traffic, or when what was sent was not confirmed for the third.
constexpr int kKeepAliveIdleSeconds = 15;
constexpr int kKeepAliveIntervalSeconds = 5;
constexpr int kKeepAliveCount = 3;
constexpr unsigned int kUnconfirmedMilliseconds = 30000;
// Of one address, so that one that swallows everything does not take all the
// time that there is.
constexpr absl::Duration kConnectTimeout = absl::Seconds(5);
constexpr absl::Duration kWaitMax = absl::Minutes(1);

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::Status SystemError(absl::string_view what, absl::string_view host,
                         uint16_t port, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " ", HostAndPort(host, port), ": ", why));
}

absl::StatusOr<Addresses> Resolve(absl::string_view what,
                                  const std::string& host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  Addresses addresses(found, &freeaddrinfo);
  if (error == 0) return addresses;
  absl::Status unresolved = SystemError(
      what, host, port,
      error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error));
  if (error == EAI_AGAIN || error == EAI_SYSTEM || error == EAI_MEMORY) {
    return unresolved;
  }
  return absl::NotFoundError(unresolved.message());
}

Descriptor NewSocket(const addrinfo& address) {
  return Descriptor(
      socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// These only help: without one a connection works too, so none is checked.
void SetOptions(const Descriptor& socket) {
  const auto set = [&](int level, int option, auto value) {
    setsockopt(socket.number(), level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveCount);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnconfirmedMilliseconds);
}

bool WaitFor(Runtime& runtime, short what, const Descriptor& socket,
             absl::Time deadline) {
  while (true) {
    const absl::Time now = runtime.Now();
    pollfd waited = {.fd = socket.number(), .events = what, .revents = 0};
    if (poll(&waited, 1, MillisecondsUntil(deadline, now)) > 0) return true;
    if (now >= deadline) return false;
  }
}

// Whoever connects to a port of this host on which nobody listens is at times
// given that very port to connect from, and is then connected to itself.
bool IsConnectedToItself(const Descriptor& socket) {
  sockaddr_storage own = {};
  sockaddr_storage other = {};
  socklen_t own_bytes = sizeof(own);
  socklen_t other_bytes = sizeof(other);
  return getsockname(socket.number(), reinterpret_cast<sockaddr*>(&own),
                     &own_bytes) == 0 &&
         getpeername(socket.number(), reinterpret_cast<sockaddr*>(&other),
                     &other_bytes) == 0 &&
         own_bytes == other_bytes && std::memcmp(&own, &other, own_bytes) == 0;
}

// 0, or an errno.
int ConnectToAddress(Runtime& runtime, const addrinfo& address,
                     const Descriptor& socket, absl::Time deadline) {
  if (!socket.is_open()) return errno;
  if (connect(socket.number(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    const absl::Time end = std::min(deadline, runtime.Now() + kConnectTimeout);
    if (!WaitToWrite(runtime, socket, end)) return ETIMEDOUT;
  }
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
    return errno;
  }
  return error == 0 && IsConnectedToItself(socket) ? ECONNREFUSED : error;
}

int ListenOnAddress(const addrinfo& address, const Descriptor& socket) {
  if (!socket.is_open()) return errno;
  const int on = 1;
  if (setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) !=
          0 ||
      bind(socket.number(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(socket.number(), SOMAXCONN) != 0) {
    return errno;
  }
  return 0;
}

}  // namespace

Descriptor::~Descriptor() {
  if (is_open()) close(number_);
}

void ShutDown(const Descriptor& socket) {
  shutdown(socket.number(), SHUT_RDWR);
}

std::string HostAndPort(absl::string_view host, uint16_t port) {
  const bool is_ipv6 = absl::StrContains(host, ":");
  return absl::StrCat(is_ipv6 ? "[" : "", host, is_ipv6 ? "]:" : ":", port);
}

absl::StatusOr<Descriptor> ListenOn(const std::string& host, uint16_t port) {
  const auto addresses = Resolve("listen on", host, port);
  if (!addresses.ok()) return addresses.status();
  int error = 0;
  for (const addrinfo* address = addresses->get(); address != nullptr;
       address = address->ai_next) {
    Descriptor socket = NewSocket(*address);
    error = ListenOnAddress(*address, socket);
    if (error == 0) return socket;
  }
  return SystemError("listen on", host, port, std::strerror(error));
}

uint16_t PortOf(const Descriptor& listening) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  getsockname(listening.number(), reinterpret_cast<sockaddr*>(&address),
              &bytes);
  // Both families keep it in the same place.
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

absl::StatusOr<Descriptor> AcceptFrom(const Descriptor& listening,
                                      std::string* address) {
  sockaddr_storage other = {};
  socklen_t bytes = sizeof(other);
  Descriptor socket(accept4(listening.number(),
                            reinterpret_cast<sockaddr*>(&other), &bytes,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
        errno == ENOMEM) {
      return absl::ResourceExhaustedError(std::strerror(errno));
    }
    // Nobody there, or somebody who is gone again.
    return socket;
  }
  SetOptions(socket);
  char text[NI_MAXHOST] = {};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&other), bytes, text,
                  sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0) {
    *address = text;
  }
  return socket;
}

absl::StatusOr<Descriptor> ConnectTo(Runtime& runtime, const std::string& host,
                                     uint16_t port, absl::Time deadline) {
  const auto addresses = Resolve("connect to", host, port);
  if (!addresses.ok()) return addresses.status();
  int error = 0;
  for (const addrinfo* address = addresses->get(); address != nullptr;
       address = address->ai_next) {
    Descriptor socket = NewSocket(*address);
    error = ConnectToAddress(runtime, *address, socket, deadline);
    if (error != 0) continue;
    SetOptions(socket);
    return socket;
  }
  return SystemError("connect to", host, port, std::strerror(error));
}

int MillisecondsUntil(absl::Time deadline, absl::Time now) {
  const absl::Duration left =
      std::clamp(deadline - now, absl::ZeroDuration(), kWaitMax);
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

bool WaitToRead(Runtime& runtime, const Descriptor& socket,
                absl::Time deadline) {
  return WaitFor(runtime, POLLIN, socket, deadline);
}

bool WaitToWrite(Runtime& runtime, const Descriptor& socket,
                 absl::Time deadline) {
  return WaitFor(runtime, POLLOUT, socket, deadline);
}

Transfer ReadSome(const Descriptor& socket, char* buffer, size_t size) {
  ssize_t bytes = 0;
  do {
    bytes = recv(socket.number(), buffer, size, 0);
  } while (bytes < 0 && errno == EINTR);
  if (bytes >= 0) return {.bytes = static_cast<size_t>(bytes)};
  if (errno == EAGAIN) return {.would_block = true};
  return {.error = errno};
}

Transfer SendSome(const Descriptor& socket, absl::string_view bytes) {
  ssize_t sent = 0;
  do {
    sent = send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {.bytes = static_cast<size_t>(sent)};
  if (errno == EAGAIN) return {.would_block = true};
  return {.error = errno};
}

}  // namespace muonshard
