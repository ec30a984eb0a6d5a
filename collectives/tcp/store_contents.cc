#include "collectives/tcp/store_contents.h"

#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

// A frame's length has 32 bits.
constexpr size_t kValueBytesMaxMax = size_t{1} << 30;

absl::Status Full(absl::string_view what, size_t most) {
  return absl::ResourceExhaustedError(
      absl::StrCat("tcp store: at most ", most, " ", what));
}

}  // namespace

absl::Status CheckTcpStoreLimits(const TcpStoreLimits& limits) {
  const auto bad = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("tcp store: want ", what));
  };
  if (limits.value_bytes_max < 1 ||
      limits.value_bytes_max > kValueBytesMaxMax) {
    return bad(absl::StrCat("a value_bytes_max from 1 to ", kValueBytesMaxMax,
                            ", got ", limits.value_bytes_max));
  }
  if (limits.key_count_max < 1) return bad("a key_count_max above 0");
  if (limits.stored_bytes_max < 1) return bad("a stored_bytes_max above 0");
  if (limits.client_count_max < 1) return bad("a client_count_max above 0");
  if (limits.stranger_count_max < 1) return bad("a stranger_count_max above 0");
  if (limits.stranger_timeout <= absl::ZeroDuration()) {
    return bad("a stranger_timeout above 0");
  }
  return absl::OkStatus();
}

absl::Status TcpStoreContents::CheckRoom(size_t keys, size_t bytes,
                                         size_t freed) const {
  if (values_.size() + counters_.size() + keys > limits_.key_count_max) {
    return Full("keys", limits_.key_count_max);
  }
  if (stored_bytes_ - freed + bytes > limits_.stored_bytes_max) {
    return Full("bytes of keys and values", limits_.stored_bytes_max);
  }
  return absl::OkStatus();
}

absl::Status TcpStoreContents::Put(const std::string& key,
                                   absl::string_view value) {
  if (value.size() > limits_.value_bytes_max) {
    return Full("bytes in a value", limits_.value_bytes_max);
  }
  const auto found = values_.find(key);
  const bool is_new = found == values_.end();
  const size_t bytes = value.size() + (is_new ? key.size() : 0);
  const size_t freed = is_new ? 0 : found->second.size();
  if (absl::Status s = CheckRoom(is_new ? 1 : 0, bytes, freed); !s.ok()) {
    return s;
  }
  stored_bytes_ += bytes - freed;
  values_[key] = std::string(value);
  return absl::OkStatus();
}

const std::string* TcpStoreContents::Find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

absl::StatusOr<int64_t> TcpStoreContents::Add(const std::string& key,
                                              int64_t delta) {
  const auto found = counters_.find(key);
  const bool is_new = found == counters_.end();
  if (is_new) {
    const size_t bytes = key.size() + sizeof(int64_t);
    if (absl::Status s = CheckRoom(1, bytes, 0); !s.ok()) return s;
    stored_bytes_ += bytes;
  }
  int64_t sum = 0;
  if (__builtin_add_overflow(is_new ? 0 : found->second, delta, &sum)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tcp store: the sum of counter \"", key, "\" and ", delta,
                     " has more than 64 bits"));
  }
  counters_[key] = sum;
  return sum;
}

}  // namespace muonshard
