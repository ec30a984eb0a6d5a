#include "testing/operation_count.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muonshard::testing {

int64_t OperationCountIn(absl::string_view report, Rank rank) {
  const std::string name =
      absl::StrCat("operations of rank ", ToInt(rank), ": ");
  for (absl::string_view line : absl::StrSplit(report, '\n')) {
    int64_t count = 0;
    if (absl::ConsumePrefix(&line, name) && absl::SimpleAtoi(line, &count)) {
      return count;
    }
  }
  return 0;
}

}  // namespace muonshard::testing
