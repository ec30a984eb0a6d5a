#include "optimizer/shapes/shapes_file.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

namespace muonshard {
namespace {

using Json = nlohmann::json;

constexpr int64_t kRepeatMax = 100000;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("shapes: ", parts...));
}

// The text, in which no object names a field twice: a library that keeps one of
// two would hide a contradiction.
absl::StatusOr<Json> ParseOnce(absl::string_view text) {
  std::vector<std::set<std::string>> fields;
  std::string twice;
  const Json::parser_callback_t on_event = [&](int, Json::parse_event_t event,
                                               Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      fields.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      fields.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const std::string& name = parsed.get_ref<const std::string&>();
      if (!fields.back().insert(name).second && twice.empty()) twice = name;
    }
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), on_event,
                          /*allow_exceptions=*/false);
  if (json.is_discarded()) return Invalid("want JSON, got something else");
  if (!twice.empty()) {
    return Invalid("want each field once in an object, got \"",
                   absl::CEscape(twice), "\" twice");
  }
  return json;
}

// One field of one parameter, for messages.
struct Field {
  std::string parameter;
  std::string name;

  template <typename... Parts>
  absl::Status Want(const Json& got, const Parts&... want) const {
    return Invalid("parameter \"", absl::CEscape(parameter), "\": ", name,
                   ": want ", want..., ", got ", got.dump());
  }
};

absl::Status Read(const Field& field, const Json& json, bool* out) {
  if (!json.is_boolean()) return field.Want(json, "true or false");
  *out = json.get<bool>();
  return absl::OkStatus();
}

absl::Status Read(const Field& field, const Json& json, double* out) {
  if (!json.is_number()) return field.Want(json, "a number");
  *out = json.get<double>();
  return absl::OkStatus();
}

absl::Status Read(const Field& field, const Json& json, std::string* out) {
  if (!json.is_string()) return field.Want(json, "text");
  *out = json.get<std::string>();
  return absl::OkStatus();
}

template <typename Integer>
absl::Status ReadInteger(const Field& field, const Json& json, Integer* out) {
  // What does not fit into int64_t is an unsigned number or a float here.
  const bool fits = json.is_number_integer() &&
                    (!json.is_number_unsigned() ||
                     json.get<uint64_t>() <= uint64_t{INT64_MAX}) &&
                    std::in_range<Integer>(json.get<int64_t>());
  if (!fits) return field.Want(json, "an integer");
  *out = static_cast<Integer>(json.get<int64_t>());
  return absl::OkStatus();
}

absl::Status Read(const Field& field, const Json& json, int32_t* out) {
  return ReadInteger(field, json, out);
}

absl::Status Read(const Field& field, const Json& json, int64_t* out) {
  return ReadInteger(field, json, out);
}

template <typename Integer>
absl::Status Read(const Field& field, const Json& json,
                  std::vector<Integer>* out) {
  if (!json.is_array()) return field.Want(json, "a list of integers");
  for (const Json& element : json) {
    Integer value = 0;
    if (absl::Status s = Read(field, element, &value); !s.ok()) return s;
    out->push_back(value);
  }
  return absl::OkStatus();
}

// One of `values`, by its name.
template <typename Value, size_t kCount, typename Name>
absl::Status ReadWord(const Field& field, const Json& json,
                      const std::array<Value, kCount>& values, Name name_of,
                      Value* out) {
  std::vector<absl::string_view> names;
  for (const Value value : values) {
    names.push_back(name_of(value));
    if (json.is_string() &&
        json.get_ref<const std::string&>() == std::string(names.back())) {
      *out = value;
      return absl::OkStatus();
    }
  }
  return field.Want(json, "one of ", absl::StrJoin(names, ", "));
}

absl::Status Read(const Field& field, const Json& json, DataType* out) {
  constexpr std::array kTypes = {DataType::kF32, DataType::kBF16,
                                 DataType::kF16};
  return ReadWord(field, json, kTypes, &DataTypeName, out);
}

absl::Status Read(const Field& field, const Json& json, Rule* out) {
  return ReadWord(field, json, std::array{Rule::kMuon, Rule::kAdamW}, &RuleName,
                  out);
}

absl::Status Read(const Field& field, const Json& json, AxisRole* out) {
  constexpr std::array kRoles = {AxisRole::kShard,    AxisRole::kReplicate,
                                 AxisRole::kDistinct, AxisRole::kDuplicate,
                                 AxisRole::kPartial,  AxisRole::kSlice};
  return ReadWord(field, json, kRoles, &AxisRoleName, out);
}

absl::Status Read(const Field& field, const Json& json, GradientMode* out) {
  constexpr std::array kModes = {GradientMode::kView, GradientMode::kCopyLast,
                                 GradientMode::kAccumulate};
  return ReadWord(field, json, kModes, &GradientModeName, out);
}

absl::Status Read(const Field& field, const Json& json, AbsentGradient* out) {
  constexpr std::array kAbsent = {
      AbsentGradient::kError, AbsentGradient::kZeros, AbsentGradient::kSkip};
  return ReadWord(field, json, kAbsent, &AbsentGradientName, out);
}

absl::Status Read(const Field& field, const Json& json, CheckIns* out) {
  constexpr std::array kCheckIns = {CheckIns::kExactly, CheckIns::kAtMost,
                                    CheckIns::kSyncOnly};
  return ReadWord(field, json, kCheckIns, &CheckInsName, out);
}

// An object of axes.
template <typename Value>
absl::Status Read(const Field& field, const Json& json,
                  std::map<std::string, Value>* out) {
  if (!json.is_object()) return field.Want(json, "an object of axes");
  for (const auto& [axis, value] : json.items()) {
    const Field of_axis{field.parameter, absl::StrCat(field.name, ".", axis)};
    if (absl::Status s = Read(of_axis, value, &(*out)[axis]); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Reads the fields of `json`, each into where `fields` says.
using FieldReader = std::function<absl::Status(const Field&, const Json&)>;
using FieldTable = std::vector<std::pair<absl::string_view, FieldReader>>;

template <typename Value>
FieldReader Into(Value* out) {
  return [out](const Field& field, const Json& json) {
    return Read(field, json, out);
  };
}

absl::Status ReadFields(const std::string& parameter, const std::string& prefix,
                        const Json& json, const FieldTable& fields) {
  for (const auto& [name, value] : json.items()) {
    const Field field{parameter, prefix + name};
    const FieldReader* reader = nullptr;
    std::vector<absl::string_view> known;
    for (const auto& [known_name, read] : fields) {
      known.push_back(known_name);
      if (known_name == name) reader = &read;
    }
    if (reader == nullptr) {
      return Invalid("parameter \"", absl::CEscape(parameter),
                     "\": no field \"", prefix, absl::CEscape(name),
                     "\"; there are ", absl::StrJoin(known, ", "));
    }
    if (absl::Status s = (*reader)(field, value); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Read(const Field& field, const Json& json, Blocks* out) {
  if (!json.is_object()) return field.Want(json, "an object");
  return ReadFields(field.parameter, "blocks.", json,
                    {{"dimension", Into(&out->dimension)},
                     {"sizes", Into(&out->sizes)},
                     {"padding", Into(&out->padding)}});
}

absl::StatusOr<ParameterSpec> ReadParameter(const Json& json) {
  ParameterSpec spec;
  const auto named = json.find("name");
  if (named == json.end() || !named->is_string()) {
    return Invalid("want a parameter with a name, got ", json.dump());
  }
  spec.name = named->get<std::string>();
  for (const char* required : {"shape", "rule"}) {
    if (json.contains(required)) continue;
    return Invalid("parameter \"", absl::CEscape(spec.name), "\": want a ",
                   required, ", got none");
  }
  const absl::Status read =
      ReadFields(spec.name, "", json,
                 {{"name", Into(&spec.name)},
                  {"shape", Into(&spec.shape)},
                  {"rule", Into(&spec.rule)},
                  {"dtype", Into(&spec.dtype)},
                  {"gradient_dtype", Into(&spec.gradient_dtype)},
                  {"fan_out_dimension", Into(&spec.fan_out_dimension)},
                  {"blocks", Into(&spec.blocks)},
                  {"roles", Into(&spec.roles)},
                  {"coordinates", Into(&spec.coordinates)},
                  {"blockwise", Into(&spec.blockwise)},
                  {"gradient_mode", Into(&spec.gradient_mode)},
                  {"absent_gradient", Into(&spec.absent_gradient)},
                  {"check_ins", Into(&spec.check_ins)},
                  {"learning_rate_scale", Into(&spec.learning_rate_scale)},
                  {"schedule", Into(&spec.schedule)},
                  {"weight_decay", Into(&spec.weight_decay)}});
  if (!read.ok()) return read;
  return spec;
}

// The list in field "parameters" of `json`, which has no other field but
// "repeat" if it is `repeated`.
absl::StatusOr<const Json*> ListOf(const Json& json, bool repeated) {
  const auto list = json.is_object() ? json.find("parameters") : json.end();
  const bool alone = json.size() == (repeated ? 2 : 1);
  if (list == json.end() || !list->is_array() || !alone) {
    return Invalid("want an object of ", repeated ? "\"repeat\" and " : "",
                   "\"parameters\", a list, got ", json.dump().substr(0, 80));
  }
  return &*list;
}

absl::Status AddRepeated(const Json& json, std::vector<ParameterSpec>& specs) {
  const absl::StatusOr<const Json*> list = ListOf(json, /*repeated=*/true);
  if (!list.ok()) return list.status();
  int64_t copies = 0;
  const Json& repeat = json["repeat"];
  if (!ReadInteger({"", "repeat"}, repeat, &copies).ok() || copies < 1 ||
      copies > kRepeatMax) {
    return Invalid("repeat: want an integer in [1, ", kRepeatMax, "], got ",
                   repeat.dump());
  }
  std::vector<ParameterSpec> once;
  for (const Json& entry : **list) {
    absl::StatusOr<ParameterSpec> spec = ReadParameter(entry);
    if (!spec.ok()) return spec.status();
    once.push_back(*std::move(spec));
  }
  for (int64_t copy = 0; copy < copies; ++copy) {
    for (const ParameterSpec& spec : once) {
      specs.push_back(spec);
      specs.back().name =
          absl::StrReplaceAll(spec.name, {{"{}", absl::StrCat(copy)}});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ParameterSpec>> ParseShapes(absl::string_view json) {
  const absl::StatusOr<Json> parsed = ParseOnce(json);
  if (!parsed.ok()) return parsed.status();
  const absl::StatusOr<const Json*> list = ListOf(*parsed, /*repeated=*/false);
  if (!list.ok()) return list.status();
  std::vector<ParameterSpec> specs;
  for (const Json& entry : **list) {
    if (entry.is_object() && entry.contains("repeat")) {
      if (absl::Status s = AddRepeated(entry, specs); !s.ok()) return s;
      continue;
    }
    absl::StatusOr<ParameterSpec> spec = ReadParameter(entry);
    if (!spec.ok()) return spec.status();
    specs.push_back(*std::move(spec));
  }
  return specs;
}

}  // namespace muonshard
