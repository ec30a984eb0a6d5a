// The variables that a started rank sees.

#ifndef TOOLS_LAUNCHER_RANK_ENVIRONMENT_H_
#define TOOLS_LAUNCHER_RANK_ENVIRONMENT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muonshard {

struct RankPlace {
  int32_t rank = 0;
  int32_t size = 1;
  std::string store;   // An address as in open_store.h.
  std::string secret;  // Empty: there is none.
};

// Whether a launcher, this one or another, tells ranks their place by `name`.
bool IsLauncherVariable(absl::string_view name);

// `inherited`, "NAME=value" each, without any launcher's variables, and with
// ours. All ranks are on this host.
std::vector<std::string> RankEnvironment(std::span<const std::string> inherited,
                                         const RankPlace& place);

}  // namespace muonshard

#endif  // TOOLS_LAUNCHER_RANK_ENVIRONMENT_H_
