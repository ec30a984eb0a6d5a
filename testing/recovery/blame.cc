#include "testing/recovery/blame.h"

#include <cstddef>
#include <regex>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace muonshard::testing {
namespace {

constexpr absl::string_view kList = "ranks? ([0-9, ]+)";

// In a group, and in the world where that differs.
std::string Names() {
  return absl::StrCat(kList, "(?: \\(", kList, " of the world\\))?");
}

void Add(const std::string& list, std::set<int32_t>& ranks) {
  for (const absl::string_view number : absl::StrSplit(list, ", ")) {
    int32_t rank = 0;
    if (absl::SimpleAtoi(number, &rank)) ranks.insert(rank);
  }
}

}  // namespace

std::vector<std::set<int32_t>> BlamedIn(const std::string& message) {
  // An error that names a rank ends so.
  static const std::regex sentence(absl::StrCat(
      "(?:; missing ", Names(), ")?(?:; the producers have not ended on ",
      Names(), ")?(?:; held up by ", kList, " of the world)? \\[rank "));
  std::vector<std::set<int32_t>> blamed;
  const std::sregex_iterator end;
  for (std::sregex_iterator found(message.begin(), message.end(), sentence);
       found != end; ++found) {
    const std::smatch& lists = *found;
    std::set<int32_t> ranks;
    if (lists[5].matched) {
      Add(lists[5], ranks);
    } else {
      for (const size_t names : {1, 3}) {
        const size_t in_world = names + 1;
        Add(lists[in_world].matched ? lists[in_world] : lists[names], ranks);
      }
    }
    if (!ranks.empty()) blamed.push_back(std::move(ranks));
  }
  return blamed;
}

}  // namespace muonshard::testing
