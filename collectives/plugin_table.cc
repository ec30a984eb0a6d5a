#include "collectives/plugin_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

// Where the table of each minor version ends.
constexpr std::array<size_t, MUONSHARD_ABI_MINOR + 1> kTableBytes = {
    MUONSHARD_END(muonshard_plugin_table, work_free),
    MUONSHARD_END(muonshard_plugin_table, work_after),
    MUONSHARD_END(muonshard_plugin_table, report),
};

// No table is longer: a size above this is no size.
constexpr size_t kTableBytesMax = size_t{1} << 16;

struct Slot {
  const char* name;
  bool empty;
};

absl::Status CheckSlots(const muonshard_plugin_table& table) {
  const Slot required[] = {
      {"name", table.name == nullptr},
      {"build", table.build == nullptr},
      {"open", table.open == nullptr},
      {"close", table.close == nullptr},
      {"caps", table.caps == nullptr},
      {"comm_new", table.comm_new == nullptr},
      {"comm_query", table.comm_query == nullptr},
      {"comm_abort", table.comm_abort == nullptr},
      {"comm_free", table.comm_free == nullptr},
      {"comm_counters", table.comm_counters == nullptr},
      {"post", table.post == nullptr},
      {"work_test", table.work_test == nullptr},
      {"work_wait", table.work_wait == nullptr},
      {"work_then", table.work_then == nullptr},
      {"work_free", table.work_free == nullptr},
  };
  for (const Slot& slot : required) {
    if (slot.empty) {
      return absl::FailedPreconditionError(
          absl::StrCat("slot \"", slot.name, "\" of its table is empty"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<muonshard_plugin_table> ReadPluginTable(
    const muonshard_plugin_table& given) {
  const size_t size = given.header.size;
  if (size < MUONSHARD_END(muonshard_plugin_table, abi_minor) ||
      size > kTableBytesMax) {
    return absl::FailedPreconditionError(
        absl::StrCat("its table says it is ", size, " bytes long, want ",
                     kTableBytes.front(), " to ", kTableBytesMax));
  }
  if (given.abi_major != MUONSHARD_ABI_MAJOR) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it has ABI version ", given.abi_major, ".", given.abi_minor,
        ", this program has ", MUONSHARD_ABI_MAJOR, ".", MUONSHARD_ABI_MINOR));
  }
  const uint32_t minor = std::min(given.abi_minor, MUONSHARD_ABI_MINOR);
  if (size < kTableBytes[minor]) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its table is ", size, " bytes long, version ", given.abi_major, ".",
        given.abi_minor, " has at least ", kTableBytes[minor]));
  }
  // Of a newer table this takes the head, of an older one all there is.
  muonshard_plugin_table table = {};
  std::memcpy(&table, &given, std::min(size, kTableBytes[minor]));
  if (absl::Status s = CheckSlots(table); !s.ok()) return s;
  return table;
}

}  // namespace muonshard
