// Instants as they cross the plugin ABI: nanoseconds of the runtime's clock.

#ifndef COLLECTIVES_ABI_TIME_H_
#define COLLECTIVES_ABI_TIME_H_

#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace muonshard {

// Nanoseconds since absl::UnixEpoch(). The infinite future is INT64_MAX, which
// never passes; so is every instant too late to be told.
inline int64_t ToAbiNanoseconds(absl::Time time) {
  return absl::ToUnixNanos(time);
}

inline absl::Time FromAbiNanoseconds(int64_t nanoseconds) {
  if (nanoseconds == std::numeric_limits<int64_t>::max()) {
    return absl::InfiniteFuture();
  }
  return absl::FromUnixNanos(nanoseconds);
}

}  // namespace muonshard

#endif  // COLLECTIVES_ABI_TIME_H_
