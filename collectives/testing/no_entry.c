/* A shared object, but no plugin. */
#include "collectives/plugin_abi.h"

MUONSHARD_EXPORT int32_t muonshard_no_plugin(void) { return 0; }
