// What the server of a TCP store keeps, within its limits.
//
// Errors       kResourceExhausted: a limit; nothing changed.
//              kInvalidArgument: a sum that no int64_t holds; nothing changed.

#ifndef COLLECTIVES_TCP_STORE_CONTENTS_H_
#define COLLECTIVES_TCP_STORE_CONTENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/tcp/store_limits.h"

namespace muonshard {

// kInvalidArgument for a limit that makes no sense.
absl::Status CheckTcpStoreLimits(const TcpStoreLimits& limits);

class TcpStoreContents {
 public:
  explicit TcpStoreContents(const TcpStoreLimits& limits) : limits_(limits) {}

  absl::Status Put(const std::string& key, absl::string_view value);
  // Null if there is none. Valid until the next Put.
  const std::string* Find(const std::string& key) const;
  absl::StatusOr<int64_t> Add(const std::string& key, int64_t delta);

 private:
  // Whether `bytes` more, `freed` less, and `keys` more are within the limits.
  absl::Status CheckRoom(size_t keys, size_t bytes, size_t freed) const;

  const TcpStoreLimits limits_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, int64_t> counters_;
  size_t stored_bytes_ = 0;
};

}  // namespace muonshard

#endif  // COLLECTIVES_TCP_STORE_CONTENTS_H_
