// A Store over TCP: one process serves, every process of the job connects, on
// any host.
//
// In this file
//   secret    a random text that all processes of a job share and nobody else
//   knows;
//             both sides prove that they know it and neither sends it
//   goodbye   what a client says before it closes its connection
//
// Threads      A server may be used from any task. It serves on one task of its
//              own, whatever the number of clients.
// Memory       Bounded by the limits, on a server whoever connects to it.
// Errors       kInvalidArgument: a limit or an address that makes no sense.
//              kUnavailable: a host that does not resolve, a port in use, a
//              server that cannot be reached before the deadline or that is
//              gone; the text names host and port.
//              kPermissionDenied: the other side does not know the secret.
//              kFailedPrecondition: it speaks another version of the protocol.
//              kResourceExhausted: a limit of the server's; nothing changed.
//              kUnimplemented: the simulated runtime; sockets need real time.
//              After a Get that ended at its deadline a client goes on as if
//              it had not been asked. A server that is silent ends a Get within
//              5 s of its deadline, and a Put or an Add after 30 s. A client
//              that has lost its server does not come back: every call,
//              those under way too, ends with kUnavailable.
// Security     A stranger, or a process of another job, who connects changes
//              nothing, sees nothing, is logged once, and holds a place for at
//              most `stranger_timeout`. Both sides prove by HMAC-SHA256 over
//              fresh nonces; see collectives/tcp/store_proof.h. What is stored
//              travels in the clear, and whoever can change bytes on the way
//              can change it: the store is for addresses, not for secrets.

#ifndef COLLECTIVES_TCP_STORE_H_
#define COLLECTIVES_TCP_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/store.h"
#include "collectives/tcp/store_limits.h"

namespace muonshard {

struct TcpStoreOptions {
  // The name or number of an address of this host: only through its interface
  // can the store be reached.
  std::string host = "127.0.0.1";
  uint16_t port = 0;   // 0: any that is free.
  std::string secret;  // At least 16 bytes.
  TcpStoreLimits limits;
};

class TcpStoreServer {
 public:
  static absl::StatusOr<std::unique_ptr<TcpStoreServer>> Listen(
      Runtime& runtime, const TcpStoreOptions& options);

  // Clients that are left see a server that is gone.
  virtual ~TcpStoreServer() = default;

  virtual uint16_t port() const = 0;

  // Waits until `client_count` clients have said goodbye or were lost (of which
  // the log tells), since the server began. kDeadlineExceeded says how many are
  // left.
  virtual absl::Status WaitForGoodbyes(int32_t client_count,
                                       absl::Time deadline) = 0;
};

// Tries until `deadline`, so that clients may start before the server; a host
// that does not exist is told at once. Looking up its name is the business of
// the system's resolver, and may take longer: see resolv.conf(5).
// Destroying the store says goodbye; no call may be under way.
absl::StatusOr<std::unique_ptr<Store>> ConnectTcpStore(Runtime& runtime,
                                                       absl::string_view host,
                                                       uint16_t port,
                                                       absl::string_view secret,
                                                       absl::Time deadline);

}  // namespace muonshard

#endif  // COLLECTIVES_TCP_STORE_H_
