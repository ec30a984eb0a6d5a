// Which operations of which ranks go wrong, and how: the text of the option
// `faults` as a value.
//
// In this file
//   rank       of the world
//   operation  number of a call of its rank, from 0: each making of a group,
//              each split, each posted operation, over all groups of one opened
//              plugin
//   plan       faults with ';' between, in any order:
//                die rank=3 before=17        die rank=3 after=17
//                late rank=1 at=4 ns=5000000
//                lose rank=2 at=9            short, corrupt, duplicate alike
//                memory rank=1 at=5
//                abort rank=0 at=12
//
// Errors       MUONSHARD_E_ARGUMENT, what is wrong beside what is known.

#ifndef PLUGINS_LOOPBACK_FAULT_PLAN_H_
#define PLUGINS_LOOPBACK_FAULT_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/loopback/outcome.h"

namespace muonshard::loopback {

struct Fault {
  enum class Kind {
    kDieBefore,  // Nothing of the operation reaches a peer.
    kDieAfter,   // Once the operation has ended.
    kLate,       // The call blocks for `late_ns` first.
    // What the rank contributes is a message, and this is done to it.
    kLose,
    kShort,
    kCorrupt,
    kDuplicate,
    kMemory,  // The call finds no memory.
    kAbort,   // Another task aborts the group of the operation.
  };

  Kind kind = Kind::kDieBefore;
  int32_t rank = 0;
  uint64_t operation = 0;
  int64_t late_ns = 0;
  std::string text;  // As in the plan.

  bool concerns_message() const {
    return kind == Kind::kLose || kind == Kind::kShort ||
           kind == Kind::kCorrupt || kind == Kind::kDuplicate;
  }
  friend bool operator==(const Fault&, const Fault&) = default;
};

// Two faults of one kind at one operation, or two that concern its message, are
// refused. An empty text is an empty plan.
Outcome ParseFaultPlan(const std::string& text, std::vector<Fault>* plan);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_FAULT_PLAN_H_
