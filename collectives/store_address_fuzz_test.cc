// Fuzz target: an address of a store is refused, or is the same after it was
// written and read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/open_store.h"
#include "testing/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ::muonshard::ParseStoreAddress;
  using ::muonshard::StoreAddress;
  const std::string text =
      ::muonshard::testing::FuzzInput(data, size).TakeRest();
  const absl::StatusOr<StoreAddress> address = ParseStoreAddress(text);
  if (!address.ok()) return 0;
  const absl::StatusOr<StoreAddress> again =
      ParseStoreAddress(ToString(*address));
  if (!again.ok() || *again != *address) std::abort();
  return 0;
}
