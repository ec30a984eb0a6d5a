#include "plugins/support/outcome.h"

#include <cstddef>
#include <cstring>

namespace muonshard::plugins {

muonshard_code Report(const Outcome& outcome, muonshard_status* status) {
  if (status == nullptr) return outcome.code;
  status->code = outcome.code;
  status->vendor_code = 0;
  status->rank = outcome.rank;
  status->reserved = 0;
  status->sequence = outcome.sequence;
  constexpr size_t kCapacity = sizeof(status->text) - 1;
  std::string text = outcome.text;
  if (text.size() > kCapacity) {
    // An error that went through several groups has its cause at the end.
    const std::string cut = "...";
    const size_t head = kCapacity / 4;
    const size_t lost = text.size() + cut.size() - kCapacity;
    text.replace(head, lost, cut);
  }
  std::memcpy(status->text, text.c_str(), text.size() + 1);
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

}  // namespace muonshard::plugins
