/* Linked by a plugin under a name that no file has. */
#include "collectives/testing/absent_dependency.h"

MUONSHARD_EXPORT int32_t muonshard_absent_dependency(void) { return 0; }
