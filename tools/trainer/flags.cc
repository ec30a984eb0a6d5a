#include "tools/trainer/flags.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace muonshard {
namespace {

absl::Status WrongValue(absl::string_view name, absl::string_view want,
                        absl::string_view got) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, ": want ", want, ", got \"", got, "\""));
}

// As a person writes it: 1048576, not 1.04858e+06.
std::string Plain(double value) { return absl::StrFormat("%.15g", value); }

template <typename Integer>
std::function<absl::Status(absl::string_view)> IntegerSetter(
    absl::string_view name, Integer first, Integer last, Integer* target) {
  return [name = std::string(name), first, last,
          target](absl::string_view text) -> absl::Status {
    Integer value = 0;
    if (!absl::SimpleAtoi(text, &value) || value < first || value > last) {
      return WrongValue(
          name, absl::StrCat("a whole number in [", first, ", ", last, "]"),
          text);
    }
    *target = value;
    return absl::OkStatus();
  };
}

}  // namespace

FlagTable::FlagTable() {
  Add("help", "", "show this text", "", [this](absl::string_view text) {
    if (!text.empty()) return WrongValue("help", "no value", text);
    help_wanted_ = true;
    return absl::OkStatus();
  }).bare_value = "";
}

FlagTable::Flag& FlagTable::Add(
    absl::string_view name, absl::string_view value_name,
    absl::string_view help, std::string default_text,
    std::function<absl::Status(absl::string_view)> set) {
  Flag flag;
  flag.name = std::string(name);
  flag.value_name = std::string(value_name);
  flag.help = std::string(help);
  flag.default_text = std::move(default_text);
  flag.set = std::move(set);
  flags_.push_back(std::move(flag));
  return flags_.back();
}

void FlagTable::AddText(absl::string_view name, absl::string_view value_name,
                        absl::string_view help, std::string* target) {
  Add(name, value_name, help, *target,
      [name = std::string(name), value_name = std::string(value_name),
       target](absl::string_view text) {
        if (text.empty()) return WrongValue(name, value_name, text);
        *target = std::string(text);
        return absl::OkStatus();
      });
}

void FlagTable::AddInteger(absl::string_view name, absl::string_view help,
                           int64_t first, int64_t last, int64_t* target) {
  Add(name, "N", help, absl::StrCat(*target),
      IntegerSetter(name, first, last, target));
}

void FlagTable::AddInteger(absl::string_view name, absl::string_view help,
                           int32_t first, int32_t last, int32_t* target) {
  Add(name, "N", help, absl::StrCat(*target),
      IntegerSetter(name, first, last, target));
}

void FlagTable::AddSeed(absl::string_view name, absl::string_view help,
                        uint64_t* target) {
  Add(name, "N", help, absl::StrCat(*target),
      IntegerSetter(name, uint64_t{0}, std::numeric_limits<uint64_t>::max(),
                    target));
}

void FlagTable::AddNumber(absl::string_view name, absl::string_view help,
                          double first, double last, double* target) {
  Add(name, "X", help, Plain(*target),
      [name = std::string(name), first, last,
       target](absl::string_view text) -> absl::Status {
        double value = 0;
        // A NaN is in no range.
        if (!absl::SimpleAtod(text, &value) ||
            !(value >= first && value <= last)) {
          return WrongValue(name,
                            absl::StrCat("a number in [", Plain(first), ", ",
                                         Plain(last), "]"),
                            text);
        }
        *target = value;
        return absl::OkStatus();
      });
}

void FlagTable::AddSwitch(absl::string_view name, absl::string_view help,
                          bool* target) {
  Add(name, "on|off", help, *target ? "on" : "off",
      [name = std::string(name), target](absl::string_view text) {
        if (text != "on" && text != "off") {
          return WrongValue(name, "on or off", text);
        }
        *target = text == "on";
        return absl::OkStatus();
      })
      .bare_value = "on";
}

void FlagTable::AddChoice(absl::string_view name, absl::string_view help,
                          std::vector<std::string> choices, int32_t* target) {
  const std::string default_text = choices[static_cast<size_t>(*target)];
  Add(name, absl::StrJoin(choices, "|"), help, default_text,
      [name = std::string(name), choices, target](absl::string_view text) {
        for (size_t i = 0; i < choices.size(); ++i) {
          if (text != choices[i]) continue;
          *target = static_cast<int32_t>(i);
          return absl::OkStatus();
        }
        return WrongValue(name, absl::StrJoin(choices, " or "), text);
      });
}

FlagTable::Flag* FlagTable::Find(absl::string_view name) {
  for (Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

absl::Status FlagTable::Unknown(absl::string_view name) const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_)
    names.push_back(absl::StrCat("--", flag.name));
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown flag \"", name, "\"; known are ", absl::StrJoin(names, ", ")));
}

absl::Status FlagTable::Unexpected(absl::string_view argument,
                                   const Flag* before) const {
  if (absl::StartsWith(argument, "-")) return Unknown(argument);
  // Only a switch leaves a value that was meant for it.
  const bool for_switch = before != nullptr && before->bare_value == "on";
  return absl::InvalidArgumentError(absl::StrCat(
      "unexpected argument \"", argument, "\"; ",
      for_switch ? absl::StrCat("write --", before->name, "=", argument)
                 : "a flag begins with --"));
}

absl::Status FlagTable::Parse(std::span<const absl::string_view> arguments) {
  const Flag* bare = nullptr;  // The flag just before, if it had no value.
  for (size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view argument =
        arguments[i] == "-h" ? absl::string_view("--help") : arguments[i];
    if (!absl::StartsWith(argument, "--")) return Unexpected(argument, bare);
    const size_t equals = argument.find('=');
    const bool has_value = equals != absl::string_view::npos;
    const absl::string_view name =
        argument.substr(2, has_value ? equals - 2 : argument.npos);
    Flag* flag = Find(name);
    if (flag == nullptr) return Unknown(argument.substr(0, equals));
    bare = nullptr;
    absl::string_view value;
    if (has_value) {
      value = argument.substr(equals + 1);
    } else if (flag->bare_value.has_value()) {
      value = *flag->bare_value;
      bare = flag;
    } else {
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", name, ": want a value, got none"));
      }
      value = arguments[++i];
    }
    if (absl::Status s = flag->set(value); !s.ok()) return s;
    flag->given = true;
  }
  return absl::OkStatus();
}

bool FlagTable::given(absl::string_view name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return flag.given;
  }
  return false;
}

std::string FlagTable::Help() const {
  std::string text;
  for (const Flag& flag : flags_) {
    std::string left = absl::StrCat("  --", flag.name);
    if (!flag.value_name.empty()) absl::StrAppend(&left, "=", flag.value_name);
    constexpr size_t kHelpColumn = 28;
    if (left.size() < kHelpColumn) {
      left.resize(kHelpColumn, ' ');
    } else {
      absl::StrAppend(&left, "\n", std::string(kHelpColumn, ' '));
    }
    absl::StrAppend(&text, left, flag.help);
    if (!flag.default_text.empty()) {
      absl::StrAppend(&text, " [", flag.default_text, "]");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace muonshard
