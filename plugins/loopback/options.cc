#include "plugins/loopback/options.h"

#include <string>

namespace muonshard::loopback {
namespace {

// Below what a wait of so many milliseconds overflows in nanoseconds.
constexpr uint64_t kValueMax = 1'000'000'000'000;

struct Key {
  const char* name;
  uint64_t Options::*value;
  uint64_t value_max;
};

constexpr Key kKeys[] = {
    {"small_bytes", &Options::small_bytes, kValueMax},
    {"poll_ms", &Options::poll_ms, kValueMax},
    {"checks", &Options::checks, 1},
};
constexpr char kFaultsKey[] = "faults";
constexpr char kNetworkKey[] = "network";

Outcome Refused(const std::string& text) {
  return {.code = MUONSHARD_E_ARGUMENT, .text = "loopback options: " + text};
}

class Reader {
 public:
  explicit Reader(const char* text) : text_(text) {}

  // Skips white space, then takes `character` if it comes next.
  bool Take(char character) {
    SkipSpace();
    if (*text_ != character) return false;
    ++text_;
    return true;
  }

  bool AtEnd() {
    SkipSpace();
    return *text_ == '\0';
  }

  // A string without escapes; keys have none.
  bool TakeString(std::string* value) {
    if (!Take('"')) return false;
    while (*text_ != '"' && *text_ != '\\' && *text_ != '\0') {
      value->push_back(*text_++);
    }
    return Take('"');
  }

  bool TakeNumber(uint64_t* value) {
    SkipSpace();
    if (!IsDigit()) return false;
    *value = 0;
    for (; IsDigit(); ++text_) {
      *value = *value * 10 + static_cast<uint64_t>(*text_ - '0');
      if (*value > kValueMax) return false;
    }
    return true;
  }

 private:
  bool IsDigit() const { return *text_ >= '0' && *text_ <= '9'; }
  void SkipSpace() {
    while (*text_ == ' ' || *text_ == '\t' || *text_ == '\n' ||
           *text_ == '\r') {
      ++text_;
    }
  }

  const char* text_;
};

std::string KnownKeys() {
  std::string text;
  for (const Key& key : kKeys) text += Quoted(key.name) + ", ";
  return text + Quoted(kFaultsKey) + ", " + Quoted(kNetworkKey);
}

Outcome ReadFaults(Reader& reader, Options* options) {
  std::string text;
  if (!reader.TakeString(&text)) {
    return Refused("key " + Quoted(kFaultsKey) + " wants a string");
  }
  Outcome outcome = ParseFaultPlan(text, &options->faults);
  if (!outcome.ok()) outcome = Refused(outcome.text);
  return outcome;
}

// What it says is checked where a plugin is opened on it.
Outcome ReadNetworkText(Reader& reader, Options* options) {
  options->network.clear();
  if (reader.TakeString(&options->network)) return {};
  return Refused("key " + Quoted(kNetworkKey) + " wants a string");
}

Outcome ReadValue(const std::string& name, Reader& reader, Options* options) {
  if (name == kFaultsKey) return ReadFaults(reader, options);
  if (name == kNetworkKey) return ReadNetworkText(reader, options);
  for (const Key& key : kKeys) {
    if (name != key.name) continue;
    uint64_t& value = options->*key.value;
    if (reader.TakeNumber(&value) && value <= key.value_max) return {};
    return Refused("key " + Quoted(name) + " wants a whole number of at most " +
                   std::to_string(key.value_max));
  }
  return Refused("no key " + Quoted(name) + "; known: " + KnownKeys());
}

}  // namespace

Outcome ReadOptions(const char* json, Options* options) {
  if (json == nullptr) return {};
  Reader reader(json);
  if (reader.AtEnd()) return {};
  const std::string shape =
      "want an object, {\"key\": 1}, got " + std::string(json);
  if (!reader.Take('{')) return Refused(shape);
  bool more = !reader.Take('}');
  while (more) {
    std::string name;
    if (!reader.TakeString(&name) || !reader.Take(':')) return Refused(shape);
    if (Outcome bad = ReadValue(name, reader, options); !bad.ok()) return bad;
    more = reader.Take(',');
    if (!more && !reader.Take('}')) return Refused(shape);
  }
  if (!reader.AtEnd()) return Refused(shape);
  return {};
}

Outcome CheckOfGroup(const Options& options, const Options& opened) {
  if (options.faults == opened.faults && options.checks == opened.checks &&
      options.network == opened.network) {
    return {};
  }
  return Refused(
      "\"faults\", \"checks\" and \"network\" are of the plugin as it was "
      "opened, a group cannot change them");
}

}  // namespace muonshard::loopback
