#include "tools/trainer/json_writer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muonshard {

void JsonWriter::BeforeValue() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (comma_) text_ += ',';
  if (break_line_) text_ += '\n';
  break_line_ = false;
}

void JsonWriter::Open(char bracket) {
  BeforeValue();
  text_ += bracket;
  comma_ = false;
}

void JsonWriter::Close(char bracket) {
  if (break_line_) text_ += '\n';
  break_line_ = false;
  text_ += bracket;
  comma_ = true;
}

void JsonWriter::Quote(absl::string_view value) {
  text_ += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&text_, "\\u%04x", static_cast<unsigned>(c));
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

void JsonWriter::Key(absl::string_view key) {
  BeforeValue();
  Quote(key);
  text_ += ": ";
  after_key_ = true;
}

void JsonWriter::Text(absl::string_view value) {
  BeforeValue();
  Quote(value);
  comma_ = true;
}

void JsonWriter::Integer(int64_t value) {
  BeforeValue();
  absl::StrAppend(&text_, value);
  comma_ = true;
}

void JsonWriter::Unsigned(uint64_t value) {
  BeforeValue();
  absl::StrAppend(&text_, value);
  comma_ = true;
}

void JsonWriter::Number(double value) {
  if (!std::isfinite(value)) {
    Null();
    return;
  }
  BeforeValue();
  absl::StrAppendFormat(&text_, "%.17g", value);
  comma_ = true;
}

void JsonWriter::Bool(bool value) {
  BeforeValue();
  text_ += value ? "true" : "false";
  comma_ = true;
}

void JsonWriter::Null() {
  BeforeValue();
  text_ += "null";
  comma_ = true;
}

void JsonWriter::TextField(absl::string_view key, absl::string_view value) {
  Key(key);
  Text(value);
}

void JsonWriter::IntegerField(absl::string_view key, int64_t value) {
  Key(key);
  Integer(value);
}

void JsonWriter::NumberField(absl::string_view key, double value) {
  Key(key);
  Number(value);
}

void JsonWriter::BoolField(absl::string_view key, bool value) {
  Key(key);
  Bool(value);
}

}  // namespace muonshard
