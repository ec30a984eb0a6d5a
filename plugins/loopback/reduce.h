// The canonical fold, by the names that all of loopback uses.

#ifndef PLUGINS_LOOPBACK_REDUCE_H_
#define PLUGINS_LOOPBACK_REDUCE_H_

#include "plugins/support/reduce.h"

namespace muonshard::loopback {

using plugins::Reduce;
using plugins::Reduction;

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_REDUCE_H_
