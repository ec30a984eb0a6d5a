#include "collectives/plugin_library.h"

#include <dlfcn.h>

#include <cstdint>
#include <exception>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/plugin_status.h"
#include "collectives/plugin_table.h"

namespace muonshard {
namespace {

constexpr absl::string_view kEntryPrefix = "muonshard_plugin_entry_v";
// Major versions to look for when ours is not there.
constexpr uint32_t kMajorMax = 16;

absl::Status NoEntry(void* library) {
  for (uint32_t major = 0; major <= kMajorMax; ++major) {
    const std::string name = absl::StrCat(kEntryPrefix, major);
    if (dlsym(library, name.c_str()) != nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("it exports ", name, ", a plugin of ABI version ", major,
                       "; this program has ", MUONSHARD_ABI_MAJOR, ".",
                       MUONSHARD_ABI_MINOR));
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat("it does not export ", MUONSHARD_ENTRY_NAME));
}

}  // namespace

absl::StatusOr<muonshard_entry_function> LoadPluginLibrary(
    const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    return absl::FailedPreconditionError(
        reason == nullptr ? "it cannot be loaded" : reason);
  }
  void* const entry = dlsym(library, MUONSHARD_ENTRY_NAME);
  if (entry == nullptr) return NoEntry(library);
  return reinterpret_cast<muonshard_entry_function>(entry);
}

absl::StatusOr<muonshard_plugin_table> CallPluginEntry(
    muonshard_entry_function entry, const muonshard_host& host) {
  muonshard_status status = EmptyPluginStatus();
  const muonshard_plugin_table* table = nullptr;
  // The ABI forbids exceptions, but one that comes all the same must not end
  // the program.
  try {
    table = entry(&host, &status);
  } catch (const std::exception& e) {
    return absl::FailedPreconditionError(
        absl::StrCat("its entry threw an exception: ", e.what()));
  } catch (...) {
    return absl::FailedPreconditionError("its entry threw an exception");
  }
  if (table == nullptr) {
    const muonshard_code code =
        status.code == MUONSHARD_OK ? MUONSHARD_E_INTERNAL : status.code;
    return absl::FailedPreconditionError(
        StatusFromPlugin(code, status, "its entry refused",
                         /*in_operation=*/false)
            .message());
  }
  return ReadPluginTable(*table);
}

}  // namespace muonshard
