/* Of another major version, whose entry has another name. */
#include "collectives/plugin_abi.h"

MUONSHARD_EXPORT const void* muonshard_plugin_entry_v2(void) { return 0; }
