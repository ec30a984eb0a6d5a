// Sockets of TCP that never block: listening and connecting, by name or number
// of a host, over IPv4 or IPv6.
//
// All are closed when the process becomes another program, send small messages
// at once, and end within a minute when the host of the other side is gone.
//
// Errors       kUnavailable names host and port and says what the system said;
//              kNotFound: there is no host of this name. A name is looked up by
//              the system's resolver, in its time: see resolv.conf(5).

#ifndef COLLECTIVES_TCP_SOCKET_H_
#define COLLECTIVES_TCP_SOCKET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"

namespace muonshard {

// A descriptor of the system, closed at the end. Negative: none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// "host:7", "[::1]:7".
std::string HostAndPort(absl::string_view host, uint16_t port);

// Listens on the first of the host's addresses that is one of this host's.
absl::StatusOr<Descriptor> ListenOn(const std::string& host, uint16_t port);
uint16_t PortOf(const Descriptor& listening);

// The next connection; not open if there is none now. kResourceExhausted: the
// process or the system has no descriptor or memory left for it. `address` is
// the other side's, without its port.
absl::StatusOr<Descriptor> AcceptFrom(const Descriptor& listening,
                                      std::string* address);

// Tries the host's addresses one after another.
absl::StatusOr<Descriptor> ConnectTo(Runtime& runtime, const std::string& host,
                                     uint16_t port, absl::Time deadline);

// The time until `deadline` for poll(2) and epoll_wait(2): rounded up, at most
// a minute, so that callers loop.
int MillisecondsUntil(absl::Time deadline, absl::Time now);

// Waits until the socket can be read (or written) or has failed; false once the
// deadline has passed.
bool WaitToRead(Runtime& runtime, const Descriptor& socket,
                absl::Time deadline);
bool WaitToWrite(Runtime& runtime, const Descriptor& socket,
                 absl::Time deadline);

// What one attempt moved.
struct Transfer {
  size_t bytes = 0;
  bool would_block = false;
  // Of errno; 0 if all is well. ReadSome has none at the end of what comes,
  // where it moved no bytes and would not block.
  int error = 0;
};
Transfer ReadSome(const Descriptor& socket, char* buffer, size_t size);
Transfer SendSome(const Descriptor& socket, absl::string_view bytes);

// Both sides read the end of the connection, and nothing is sent any more.
void ShutDown(const Descriptor& socket);

}  // namespace muonshard

#endif  // COLLECTIVES_TCP_SOCKET_H_
