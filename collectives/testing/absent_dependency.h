/* What a plugin needs from a shared object that is not there when it loads. */
#ifndef COLLECTIVES_TESTING_ABSENT_DEPENDENCY_H_
#define COLLECTIVES_TESTING_ABSENT_DEPENDENCY_H_

#include "collectives/plugin_abi.h"

MUONSHARD_EXPORT int32_t muonshard_absent_dependency(void);

#endif /* COLLECTIVES_TESTING_ABSENT_DEPENDENCY_H_ */
