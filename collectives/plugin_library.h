// A shared object that holds a plugin, loaded into this process for good.

#ifndef COLLECTIVES_PLUGIN_LIBRARY_H_
#define COLLECTIVES_PLUGIN_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "collectives/plugin_abi.h"

namespace muonshard {

// Loads the shared object at `path`, with RTLD_NOW and RTLD_LOCAL and never to
// be unloaded, and finds its entry. kFailedPrecondition with the reason.
absl::StatusOr<muonshard_entry_function> LoadPluginLibrary(
    const std::string& path);

// Calls the entry and reads the table it gives. Whatever goes wrong is
// kFailedPrecondition, also an exception of the entry.
absl::StatusOr<muonshard_plugin_table> CallPluginEntry(
    muonshard_entry_function entry, const muonshard_host& host);

}  // namespace muonshard

#endif  // COLLECTIVES_PLUGIN_LIBRARY_H_
