// The comparison of calls, by the names that all of loopback uses.

#ifndef PLUGINS_LOOPBACK_MISMATCH_H_
#define PLUGINS_LOOPBACK_MISMATCH_H_

#include "plugins/support/mismatch.h"

namespace muonshard::loopback {

using plugins::CompareCalls;
using plugins::RankCall;

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_MISMATCH_H_
