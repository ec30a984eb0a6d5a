#include "collectives/host_exchange.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/buffer.h"
#include "collectives/operation.h"
#include "collectives/work.h"

namespace muonshard {
namespace {

constexpr size_t kHostIdBytesMax = 254;
// In place of the length of an id that is too long, so that all ranks hear of
// it and none waits for an id that does not come.
constexpr uint8_t kTooLong = 255;

// The bytes of all ranks, one after another; `counts[r]` are of rank r.
absl::StatusOr<std::vector<uint8_t>> GatherBytes(
    Collective& world, std::span<const uint8_t> own,
    const std::vector<int64_t>& counts, absl::string_view label,
    absl::Time deadline) {
  int64_t bytes = 0;
  for (const int64_t count : counts) bytes += count;
  std::vector<uint8_t> all(static_cast<size_t>(bytes));
  const absl::Status gathered = AwaitEnd(world.AllGatherV(
      ConstBuffer::Of<uint8_t>(own), MutableBuffer::Of<uint8_t>(all), counts,
      {.label = std::string(label), .deadline = deadline}));
  if (!gathered.ok()) return gathered;
  return all;
}

}  // namespace

std::string LocalHostId() {
  std::array<char, 256> name = {};
  // A name that does not fit is cut; the last byte stays zero.
  gethostname(name.data(), name.size() - 1);
  std::ifstream boot_file("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  std::getline(boot_file, boot_id);
  return absl::StrCat(name.data(), " ", boot_id).substr(0, kHostIdBytesMax);
}

absl::StatusOr<HostMap> ExchangeHosts(Collective& world,
                                      absl::string_view host_id,
                                      absl::Time deadline) {
  const size_t size = static_cast<size_t>(world.size());
  const uint8_t own_length = host_id.size() > kHostIdBytesMax
                                 ? kTooLong
                                 : static_cast<uint8_t>(host_id.size());
  const absl::StatusOr<std::vector<uint8_t>> lengths =
      GatherBytes(world, {&own_length, 1}, std::vector<int64_t>(size, 1),
                  "host id lengths", deadline);
  if (!lengths.ok()) return lengths.status();
  const auto wrong = std::find(lengths->begin(), lengths->end(), kTooLong);
  if (wrong != lengths->end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", wrong - lengths->begin(), ": want a host id of at most ",
        kHostIdBytesMax, " bytes, got more"));
  }

  const std::vector<uint8_t> own_id(host_id.begin(), host_id.end());
  const absl::StatusOr<std::vector<uint8_t>> bytes = GatherBytes(
      world, own_id, {lengths->begin(), lengths->end()}, "host ids", deadline);
  if (!bytes.ok()) return bytes.status();

  std::vector<std::string> host_ids;
  host_ids.reserve(size);
  auto next = bytes->begin();
  for (const uint8_t length : *lengths) {
    host_ids.emplace_back(next, next + length);
    next += length;
  }
  return HostMap::FromHostIds(host_ids);
}

}  // namespace muonshard
