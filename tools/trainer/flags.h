// Command-line flags: --name=value or --name value, from a table. A switch
// takes its value after an equals sign only. --help, or -h, is always known.
//
// Ordering     A flag given twice has its last value.
// Errors       kInvalidArgument: an unknown flag (all known ones are listed), a
//              missing or empty value, a value out of range (the range is
//              named), or an argument that belongs to no flag.

#ifndef TOOLS_TRAINER_FLAGS_H_
#define TOOLS_TRAINER_FLAGS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muonshard {

class FlagTable {
 public:
  FlagTable();

  // Each adds one flag that sets `*target`, whose value now is shown as the
  // default. Numbers lie in [first, last].
  void AddText(absl::string_view name, absl::string_view value_name,
               absl::string_view help, std::string* target);
  void AddInteger(absl::string_view name, absl::string_view help, int64_t first,
                  int64_t last, int64_t* target);
  void AddInteger(absl::string_view name, absl::string_view help, int32_t first,
                  int32_t last, int32_t* target);
  void AddSeed(absl::string_view name, absl::string_view help,
               uint64_t* target);
  void AddNumber(absl::string_view name, absl::string_view help, double first,
                 double last, double* target);
  // --name=on or --name=off; --name alone is on.
  void AddSwitch(absl::string_view name, absl::string_view help, bool* target);
  void AddChoice(absl::string_view name, absl::string_view help,
                 std::vector<std::string> choices, int32_t* target);

  // `arguments` without the program's name.
  absl::Status Parse(std::span<const absl::string_view> arguments);

  bool help_wanted() const { return help_wanted_; }
  bool given(absl::string_view name) const;

  // One flag a line, or two.
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string value_name;
    std::string help;
    std::string default_text;
    // What the flag alone means; absent if it wants a value.
    std::optional<std::string> bare_value;
    bool given = false;
    std::function<absl::Status(absl::string_view)> set;
  };

  Flag& Add(absl::string_view name, absl::string_view value_name,
            absl::string_view help, std::string default_text,
            std::function<absl::Status(absl::string_view)> set);
  Flag* Find(absl::string_view name);
  absl::Status Unknown(absl::string_view name) const;
  // `argument` follows `before`, which is null at the start, and is no flag.
  absl::Status Unexpected(absl::string_view argument, const Flag* before) const;

  std::vector<Flag> flags_;
  bool help_wanted_ = false;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_FLAGS_H_
