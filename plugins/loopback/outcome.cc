#include "plugins/loopback/outcome.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace muonshard::loopback {

muonshard_code Report(const Outcome& outcome, muonshard_status* status) {
  if (status == nullptr) return outcome.code;
  *status = {};
  status->code = outcome.code;
  status->rank = outcome.rank;
  status->sequence = outcome.sequence;
  constexpr size_t kCapacity = sizeof(status->text) - 1;
  constexpr char kCut[] = "...";
  const size_t bytes = std::min(outcome.text.size(), kCapacity);
  std::memcpy(status->text, outcome.text.data(), bytes);
  if (outcome.text.size() > kCapacity) {
    std::memcpy(status->text + kCapacity - (sizeof(kCut) - 1), kCut,
                sizeof(kCut) - 1);
  }
  return outcome.code;
}

std::string Quoted(const std::string& name) { return "\"" + name + "\""; }

std::string RankList(const std::vector<int32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const char* separator = "";
  for (const int32_t rank : ranks) {
    text += separator + std::to_string(rank);
    separator = ", ";
  }
  return text;
}

}  // namespace muonshard::loopback
