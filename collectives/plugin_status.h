// Errors as they cross the plugin ABI, both ways.
//
// In this file
//   MUONSHARD_E_  ARGUMENT     kInvalidArgument
//                 STATE        kFailedPrecondition
//                 UNSUPPORTED  kUnimplemented
//                 MEMORY       kResourceExhausted
//                 SYSTEM       kInternal
//                 MISMATCH     kFailedPrecondition
//                 PEER         kUnavailable
//                 TIMEOUT      kDeadlineExceeded
//                 ABORTED      kAborted
//                 CORRUPT      kDataLoss
//                 VERSION      kFailedPrecondition
//                 INTERNAL     kInternal
//                 DEADLOCK     kFailedPrecondition
//
// Result       Codes that have a partner here keep their meaning when they go
//              through a plugin and come back: an event's error that fails a
//              call is the error of the call.

#ifndef COLLECTIVES_PLUGIN_STATUS_H_
#define COLLECTIVES_PLUGIN_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "collectives/plugin_abi.h"

namespace muonshard {

// What a plugin said, behind `what`, which names group, rank and call. `code`
// decides; `status` adds the text, the rank to blame and, with `in_operation`,
// the number of the operation. OK if `code` is MUONSHARD_OK.
absl::Status StatusFromPlugin(muonshard_code code,
                              const muonshard_status& status,
                              absl::string_view what, bool in_operation);

// The code that StatusFromPlugin turns into `code`, or MUONSHARD_E_INTERNAL.
muonshard_code PluginCode(absl::StatusCode code);

// A status for a plugin to read. `rank` is to blame, or -1. A text that is too
// long loses its middle: in the end is what an error was caused by.
muonshard_status StatusForPlugin(muonshard_code code, absl::string_view text,
                                 int32_t rank);

// Fills `status` unless it is null, and returns the code of `error`.
muonshard_code GiveStatus(const absl::Status& error, muonshard_status* status);

// A status for a plugin to fill: OK, no rank, no text.
inline muonshard_status EmptyPluginStatus() {
  muonshard_status status;
  status.code = MUONSHARD_OK;
  status.vendor_code = 0;
  status.rank = -1;
  status.reserved = 0;
  status.sequence = 0;
  // A text ends with its first zero, and zeros for all of it would cost every
  // call.
  status.text[0] = '\0';
  return status;
}

}  // namespace muonshard

#endif  // COLLECTIVES_PLUGIN_STATUS_H_
