// Writes one JSON value, piece by piece.
//
// Ordering     Inside an object each value follows a `Key`; every Begin has its
//              End. `Field` is a key and a value.
// Numerics     Doubles are written so that they read back as the same bits; a
//              double that is not finite, which JSON cannot say, as null.

#ifndef TOOLS_TRAINER_JSON_WRITER_H_
#define TOOLS_TRAINER_JSON_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muonshard {

class JsonWriter {
 public:
  void BeginObject() { Open('{'); }
  void EndObject() { Close('}'); }
  void BeginArray() { Open('['); }
  void EndArray() { Close(']'); }
  void Key(absl::string_view key);

  void Text(absl::string_view value);
  void Integer(int64_t value);
  void Unsigned(uint64_t value);
  void Number(double value);
  void Bool(bool value);
  void Null();

  void TextField(absl::string_view key, absl::string_view value);
  void IntegerField(absl::string_view key, int64_t value);
  void NumberField(absl::string_view key, double value);
  void BoolField(absl::string_view key, bool value);

  // Starts a new line where white space may stand.
  void NewLine() { break_line_ = true; }

  const std::string& text() const { return text_; }

 private:
  void Open(char bracket);
  void Close(char bracket);
  void BeforeValue();
  void Quote(absl::string_view value);

  std::string text_;
  bool comma_ = false;  // The next value is not the first of its list.
  bool after_key_ = false;
  bool break_line_ = false;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_JSON_WRITER_H_
