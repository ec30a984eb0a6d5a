// Short ways to say what a plan is made from.

#ifndef TESTING_PLAN_INPUTS_H_
#define TESTING_PLAN_INPUTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "optimizer/parameter_spec.h"
#include "topology/host_map.h"

namespace muonshard::testing {

// `lanes` consecutive ranks on each host; the last host may have fewer.
inline HostMap HostsOfLanes(int32_t ranks, int32_t lanes) {
  std::vector<std::string> ids;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    ids.push_back(absl::StrCat("host", rank / lanes));
  }
  return HostMap::FromHostIds(ids);
}

inline ParameterSpec Muon(std::string name, std::vector<int64_t> shape) {
  return {
      .name = std::move(name), .shape = std::move(shape), .rule = Rule::kMuon};
}

inline ParameterSpec AdamW(std::string name, std::vector<int64_t> shape) {
  return {
      .name = std::move(name), .shape = std::move(shape), .rule = Rule::kAdamW};
}

}  // namespace muonshard::testing

#endif  // TESTING_PLAN_INPUTS_H_
