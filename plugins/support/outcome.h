// How a call or an operation ended: a code, and for errors who, where and why.

#ifndef PLUGINS_SUPPORT_OUTCOME_H_
#define PLUGINS_SUPPORT_OUTCOME_H_

#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "collectives/plugin_abi.h"

namespace muonshard::plugins {

struct Outcome {
  muonshard_code code = MUONSHARD_OK;
  std::string text;
  int32_t rank = -1;  // In the group; the one to blame.
  uint64_t sequence = 0;

  bool ok() const { return code == MUONSHARD_OK; }
};

// Fills `status` unless it is null, and returns the code. Of a text that does
// not fit "..." takes the place of the middle.
muonshard_code Report(const Outcome& outcome, muonshard_status* status);

// Runs `function`, which returns an Outcome, and reports it. No exception
// leaves: memory that ran out is MUONSHARD_E_MEMORY.
template <typename Function>
muonshard_code Guarded(muonshard_status* status, Function function) noexcept {
  try {
    return Report(function(), status);
  } catch (const std::bad_alloc&) {
    return Report({.code = MUONSHARD_E_MEMORY, .text = "out of memory"},
                  status);
  }
}

// "\"name\"".
std::string Quoted(const std::string& name);

// "rank 2", "ranks 2, 5".
std::string RankList(const std::vector<int32_t>& ranks);

}  // namespace muonshard::plugins

#endif  // PLUGINS_SUPPORT_OUTCOME_H_
