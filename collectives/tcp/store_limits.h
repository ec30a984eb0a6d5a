// What the server of a TCP store takes at most.

#ifndef COLLECTIVES_TCP_STORE_LIMITS_H_
#define COLLECTIVES_TCP_STORE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace muonshard {

struct TcpStoreLimits {
  size_t value_bytes_max = size_t{1} << 20;
  size_t key_count_max = size_t{1} << 20;  // Of values and counters together.
  size_t stored_bytes_max = size_t{1} << 30;  // Of keys and values together.
  int32_t client_count_max = 65536;           // That know the secret.
  int32_t stranger_count_max = 256;           // That have yet to prove it.
  absl::Duration stranger_timeout = absl::Seconds(10);
};

}  // namespace muonshard

#endif  // COLLECTIVES_TCP_STORE_LIMITS_H_
