// A checked call, by the names that all of loopback uses.

#ifndef PLUGINS_LOOPBACK_CALL_H_
#define PLUGINS_LOOPBACK_CALL_H_

#include "plugins/support/call.h"

namespace muonshard::loopback {

using plugins::ByteWidth;
using plugins::Call;
using plugins::Describe;
using plugins::KindName;
using plugins::MakeCall;
using plugins::Segment;

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_CALL_H_
