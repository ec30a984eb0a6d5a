#include "collectives/store_table.h"

#include <algorithm>
#include <exception>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/abi_time.h"
#include "collectives/plugin_status.h"

namespace muonshard {
namespace {

Store& StoreOf(void* context) { return *static_cast<Store*>(context); }

// Runs `call`, which returns a Status, so that no exception crosses.
template <typename Call>
muonshard_code Guarded(muonshard_status* status, Call call) noexcept {
  try {
    return GiveStatus(call(), status);
  } catch (const std::exception&) {
    if (status != nullptr) {
      *status =
          StatusForPlugin(MUONSHARD_E_MEMORY, "the store is out of memory", -1);
    }
    return MUONSHARD_E_MEMORY;
  }
}

muonshard_code Put(void* context, const char* key, const void* value,
                   uint64_t bytes, muonshard_status* status) {
  return Guarded(status, [&] {
    return StoreOf(context).Put(
        key, absl::string_view(static_cast<const char*>(value),
                               static_cast<size_t>(bytes)));
  });
}

muonshard_code Get(void* context, const char* key, void* value,
                   uint64_t capacity, uint64_t* bytes, int64_t deadline_ns,
                   muonshard_status* status) {
  return Guarded(status, [&]() -> absl::Status {
    const absl::StatusOr<std::string> found =
        StoreOf(context).Get(key, FromAbiNanoseconds(deadline_ns));
    if (!found.ok()) return found.status();
    *bytes = found->size();
    std::copy_n(found->data(), std::min<uint64_t>(capacity, found->size()),
                static_cast<char*>(value));
    return absl::OkStatus();
  });
}

muonshard_code Add(void* context, const char* key, int64_t delta, int64_t* now,
                   muonshard_status* status) {
  return Guarded(status, [&]() -> absl::Status {
    const absl::StatusOr<int64_t> sum = StoreOf(context).Add(key, delta);
    if (!sum.ok()) return sum.status();
    *now = *sum;
    return absl::OkStatus();
  });
}

}  // namespace

StoreTable::StoreTable(Store& store) : table_{} {
  table_.header.size = MUONSHARD_END(muonshard_store, add);
  table_.context = &store;
  table_.put = Put;
  table_.get = Get;
  table_.add = Add;
}

}  // namespace muonshard
