// Opens the store that a launcher names to the processes it starts.
//
// An address is file:FOLDER, for processes that share a folder, or
// tcp:HOST:PORT, where HOST is a name, an IPv4 address, or an IPv6 address in
// brackets.
//
// Errors       kInvalidArgument names the address and what it lacks; else as
//              store.h and tcp_store.h say.

#ifndef COLLECTIVES_OPEN_STORE_H_
#define COLLECTIVES_OPEN_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/store.h"

namespace muonshard {

struct StoreAddress {
  std::string folder;  // Of file:, else empty.
  std::string host;    // Of tcp:, else empty; without brackets.
  uint16_t port = 0;

  bool operator==(const StoreAddress&) const = default;
};

absl::StatusOr<StoreAddress> ParseStoreAddress(absl::string_view address);
std::string ToString(const StoreAddress& address);

// `secret` is that of tcp_store.h; a folder has none.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(Runtime& runtime,
                                                 const StoreAddress& address,
                                                 absl::string_view secret,
                                                 absl::Time deadline);

}  // namespace muonshard

#endif  // COLLECTIVES_OPEN_STORE_H_
