// A client's way into a TCP store: connects, and both sides prove that they
// know the secret.

#ifndef COLLECTIVES_TCP_STORE_HANDSHAKE_H_
#define COLLECTIVES_TCP_STORE_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/tcp/socket.h"

namespace muonshard {

struct StoreConnection {
  Descriptor socket;
  size_t value_bytes_max = 0;  // Of the server.
};

// Tries once. kUnavailable: it is worth another try. Else as tcp_store.h, and
// kNotFound: there is no such host.
absl::StatusOr<StoreConnection> EnterTcpStore(Runtime& runtime,
                                              const std::string& host,
                                              uint16_t port,
                                              absl::string_view secret,
                                              absl::Time deadline);

}  // namespace muonshard

#endif  // COLLECTIVES_TCP_STORE_HANDSHAKE_H_
