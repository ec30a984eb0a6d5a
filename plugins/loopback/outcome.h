// How a call or an operation ended, by the names that all of loopback uses.

#ifndef PLUGINS_LOOPBACK_OUTCOME_H_
#define PLUGINS_LOOPBACK_OUTCOME_H_

#include "plugins/support/outcome.h"

namespace muonshard::loopback {

using plugins::Guarded;
using plugins::Outcome;
using plugins::Quoted;
using plugins::RankList;
using plugins::Report;

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_OUTCOME_H_
