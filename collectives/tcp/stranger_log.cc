#include "collectives/tcp/stranger_log.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muonshard {

StrangerLog::StrangerLog(Runtime& runtime, std::string where)
    : runtime_(runtime), where_(std::move(where)) {}

StrangerLog::~StrangerLog() {
  if (unlogged_count_ == 0) return;
  runtime_.Log(kLogWarning,
               absl::StrCat(where_, ": turned away ", unlogged_count_,
                            " more connections of strangers"));
}

void StrangerLog::Note(const std::string& address, absl::string_view why) {
  if (addresses_.count(address) > 0 || addresses_.size() >= kAddressCountMax) {
    ++unlogged_count_;
    return;
  }
  addresses_.insert(address);
  runtime_.Log(kLogWarning,
               absl::StrCat(where_, ": turned away a stranger from ", address,
                            ": ", why));
}

}  // namespace muonshard
