// The order of the calls of one collective that goes through several
// communicators. Each of these runs what is posted to it in order, and none
// knows of the others.
//
// Ordering     A call waits for every earlier one of its collective that it
//              conflicts with: if both go through the levels, when they share
//              memory that one of them writes; if one goes through the levels
//              and the other through the whole group, always. Two calls of the
//              whole group are in order by themselves. Messages wait for
//              others, and nothing waits for messages.
// Threads      As calls of the collective: one at a time.
// Memory       Keeps the works of calls in flight.

#ifndef COLLECTIVES_CALL_ORDER_H_
#define COLLECTIVES_CALL_ORDER_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectives/operation.h"
#include "collectives/runtime/event.h"
#include "collectives/work.h"

namespace muonshard {

// What the place of a call among others depends on.
struct CallFootprint {
  OperationKind kind = OperationKind::kBarrier;
  bool through_levels = false;
  ConstBuffer reads = {};
  MutableBuffer writes = {};
  std::string name = "";  // For reports.
};

CallFootprint FootprintOf(const Operation& operation, bool through_levels);

// Whether `later` waits for `earlier`.
bool WaitsFor(const CallFootprint& later, const CallFootprint& earlier);

// Whether two calls that are posted together may share their levels. Depends on
// what all ranks know, and not on where their memory lies.
bool ShareLevels(const CallFootprint& a, const CallFootprint& b);

class CallOrder {
 public:
  // `on_error` is called with the error of whatever part of a call ends with
  // one, in the task that ends it, and does not block.
  explicit CallOrder(std::function<void(const absl::Status&)> on_error)
      : on_error_(std::move(on_error)) {}

  // The ends of what is in flight and must have ended before `call` starts.
  std::vector<Event> Before(const CallFootprint& call);

  // Takes note of a part of a call, one launch, that has been posted. An error
  // of one part may be what another one waits for in vain.
  void PartPosted(const Work& part) const;
  void PartFailed(const absl::Status& error) const { on_error_(error); }

  // Takes note of a call all of which has been posted.
  void Posted(const CallFootprint& call, const Work& work);

 private:
  const std::function<void(const absl::Status&)> on_error_;
  std::vector<std::pair<CallFootprint, Work>> in_flight_;
};

}  // namespace muonshard

#endif  // COLLECTIVES_CALL_ORDER_H_
