#include "plugins/loopback/fault_plan.h"

#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>

namespace muonshard::loopback {
namespace {

constexpr char kSpace[] = " \t";
constexpr char kForms[] =
    "die rank=R before=N, die rank=R after=N, late rank=R at=N ns=T, "
    "lose|short|corrupt|duplicate|memory|abort rank=R at=N";
// About eleven days, so that no deadline overflows.
constexpr uint64_t kLateMax = 1'000'000'000'000'000;

struct Word {
  const char* text;
  Fault::Kind kind;
};

// A death is one of two kinds, which its keys tell apart.
constexpr Word kWords[] = {
    {"die", Fault::Kind::kDieBefore},   {"late", Fault::Kind::kLate},
    {"lose", Fault::Kind::kLose},       {"short", Fault::Kind::kShort},
    {"corrupt", Fault::Kind::kCorrupt}, {"duplicate", Fault::Kind::kDuplicate},
    {"memory", Fault::Kind::kMemory},   {"abort", Fault::Kind::kAbort},
};

// The text up to `separator` or the end, which is taken off `rest`.
std::string TakeUntil(char separator, std::string* rest) {
  const size_t at = rest->find(separator);
  std::string taken = rest->substr(0, at);
  rest->erase(0, at == std::string::npos ? at : at + 1);
  return taken;
}

std::string Trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

class Parser {
 public:
  explicit Parser(const std::string& text) { fault_.text = Trimmed(text); }

  Outcome Parse(Fault* fault) {
    std::string rest = fault_.text;
    if (Outcome bad = TakeKind(Trimmed(TakeUntil(' ', &rest))); !bad.ok()) {
      return bad;
    }
    while (!rest.empty()) {
      const std::string pair = Trimmed(TakeUntil(' ', &rest));
      if (pair.empty()) continue;
      if (Outcome bad = TakePair(pair); !bad.ok()) return bad;
    }
    if (Outcome bad = Finish(); !bad.ok()) return bad;
    *fault = fault_;
    return {};
  }

 private:
  Outcome Refused(const std::string& text) const {
    return {.code = MUONSHARD_E_ARGUMENT,
            .text = "fault " + Quoted(fault_.text) + ": " + text +
                    "; known: " + kForms};
  }

  Outcome TakeKind(const std::string& text) {
    for (const Word& word : kWords) {
      if (text != word.text) continue;
      fault_.kind = word.kind;
      return {};
    }
    return Refused("no kind " + Quoted(text));
  }

  std::optional<uint64_t>* Find(const std::string& key) {
    const bool dies = fault_.kind == Fault::Kind::kDieBefore;
    if (key == "rank") return &rank_;
    if (key == "before" && dies) return &before_;
    if (key == "after" && dies) return &after_;
    if (key == "at" && !dies) return &at_;
    if (key == "ns" && fault_.kind == Fault::Kind::kLate) return &late_ns_;
    return nullptr;
  }

  Outcome TakePair(const std::string& pair) {
    std::string text = pair;
    const std::string key = TakeUntil('=', &text);
    std::optional<uint64_t>* const value = Find(key);
    if (value == nullptr) return Refused("no key " + Quoted(key) + " there");
    if (value->has_value()) return Refused("key " + Quoted(key) + " twice");
    uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end) {
      return Refused("key " + Quoted(key) + " wants a whole number, got " +
                     Quoted(text));
    }
    *value = number;
    return {};
  }

  Outcome Finish() {
    if (!rank_.has_value()) return Refused("it wants a rank");
    if (*rank_ > INT32_MAX) {
      return Refused("want a rank of at most " + std::to_string(INT32_MAX) +
                     ", got " + std::to_string(*rank_));
    }
    fault_.rank = static_cast<int32_t>(*rank_);
    const int given =
        before_.has_value() + after_.has_value() + at_.has_value();
    if (given != 1) return Refused("it wants one operation");
    if (after_.has_value()) fault_.kind = Fault::Kind::kDieAfter;
    fault_.operation = before_.value_or(after_.value_or(at_.value_or(0)));
    if (fault_.kind != Fault::Kind::kLate) return {};
    if (!late_ns_.has_value() || *late_ns_ > kLateMax) {
      return Refused("it wants ns of at most " + std::to_string(kLateMax));
    }
    fault_.late_ns = static_cast<int64_t>(*late_ns_);
    return {};
  }

  Fault fault_;
  std::optional<uint64_t> rank_;
  std::optional<uint64_t> before_;
  std::optional<uint64_t> after_;
  std::optional<uint64_t> at_;
  std::optional<uint64_t> late_ns_;
};

bool Clash(const Fault& a, const Fault& b) {
  return a.rank == b.rank && a.operation == b.operation &&
         (a.kind == b.kind || (a.concerns_message() && b.concerns_message()));
}

}  // namespace

Outcome ParseFaultPlan(const std::string& text, std::vector<Fault>* plan) {
  plan->clear();
  std::string rest = Trimmed(text);
  bool more = !rest.empty();
  while (more) {
    more = rest.find(';') != std::string::npos;
    Fault fault;
    if (Outcome bad = Parser(TakeUntil(';', &rest)).Parse(&fault); !bad.ok()) {
      return bad;
    }
    for (const Fault& other : *plan) {
      if (!Clash(fault, other)) continue;
      return {.code = MUONSHARD_E_ARGUMENT,
              .text = "faults " + Quoted(other.text) + " and " +
                      Quoted(fault.text) + " are of one operation"};
    }
    plan->push_back(std::move(fault));
  }
  return {};
}

}  // namespace muonshard::loopback
