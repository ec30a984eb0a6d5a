// Text to learn from, as bytes: a training part and a held-out part.
//
// In this file
//   window   context + 1 bytes in a row: the inputs, and one byte later the
//            targets
//   batch    windows side by side, row-major
//
// Result     The last tenth is held out. A batch depends on its `BatchKey`
//            alone, so every rank and every run draws the same.
// Threads    A TextData never changes once made.
// Errors     kNotFound          no such file, or none of the default text
//            kInvalidArgument   no regular file, one that cannot be read to
//                               its end, an empty one, or one too short for a
//                               window in each part; says how many bytes are
//                               wanted

#ifndef TOOLS_TRAINER_TEXT_DATA_H_
#define TOOLS_TRAINER_TEXT_DATA_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muonshard {

// Where Debian's package of fortunes keeps its text.
inline constexpr absl::string_view kDefaultTextFolder =
    "/usr/share/games/fortunes";

struct TokenBatch {
  int64_t sequences = 0;
  int64_t context = 0;
  // sequences windows of context + 1 tokens.
  std::vector<int64_t> tokens;
};

struct BatchKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t rank = 0;
  uint64_t micro_batch = 0;
};

class TextData {
 public:
  // Reads one file.
  static absl::StatusOr<TextData> FromFile(const std::string& path,
                                           int64_t context);

  // Reads the text files of `folder` one after the other, by name: all but
  // indices (.dat) and links (.u8).
  static absl::StatusOr<TextData> FromFolder(const std::string& folder,
                                             int64_t context);

  // Where the text is from, for a person.
  const std::string& source() const { return source_; }
  std::span<const uint8_t> training() const;
  std::span<const uint8_t> held_out() const;

  TokenBatch DrawBatch(const BatchKey& key, int64_t sequences) const;

  // `sequences` windows of the held-out part, the `first`-th on of `total`
  // that are spread evenly over it.
  TokenBatch HeldOutBatch(int64_t first, int64_t sequences,
                          int64_t total) const;

 private:
  TextData(std::string source, std::string text, int64_t context);
  static absl::StatusOr<TextData> Checked(std::string source, std::string text,
                                          int64_t context);

  std::string source_;
  std::string text_;
  int64_t context_;
  size_t training_bytes_;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_TEXT_DATA_H_
