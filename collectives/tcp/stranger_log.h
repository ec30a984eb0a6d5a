// Tells of strangers who connect, without letting them fill the log: the first
// from each address is a line, the others are counted and become one line at
// the end.

#ifndef COLLECTIVES_TCP_STRANGER_LOG_H_
#define COLLECTIVES_TCP_STRANGER_LOG_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "collectives/runtime/runtime.h"

namespace muonshard {

class StrangerLog {
 public:
  // `where` begins each line.
  StrangerLog(Runtime& runtime, std::string where);
  ~StrangerLog();
  StrangerLog(const StrangerLog&) = delete;
  StrangerLog& operator=(const StrangerLog&) = delete;

  void Note(const std::string& address, absl::string_view why);

 private:
  // From more addresses strangers are counted only.
  static constexpr size_t kAddressCountMax = 64;

  Runtime& runtime_;
  const std::string where_;
  std::set<std::string> addresses_;
  int64_t unlogged_count_ = 0;
};

}  // namespace muonshard

#endif  // COLLECTIVES_TCP_STRANGER_LOG_H_
