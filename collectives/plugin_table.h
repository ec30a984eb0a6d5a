// Reads the table that a plugin gave, of whatever version it is.
//
// Result       A table of this program's own size. Slots that an older minor
//              version lacks are null, which is their default; those that a
//              newer one appended are not seen.
// Errors       kFailedPrecondition, with the versions, sizes or the slot that
//              is at fault.

#ifndef COLLECTIVES_PLUGIN_TABLE_H_
#define COLLECTIVES_PLUGIN_TABLE_H_

#include "absl/status/statusor.h"
#include "collectives/plugin_abi.h"

namespace muonshard {

absl::StatusOr<muonshard_plugin_table> ReadPluginTable(
    const muonshard_plugin_table& given);

}  // namespace muonshard

#endif  // COLLECTIVES_PLUGIN_TABLE_H_
