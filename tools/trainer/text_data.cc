#include "tools/trainer/text_data.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/trainer/input_file.h"
#include "tools/trainer/random_bits.h"

namespace muonshard {
namespace {

namespace fs = std::filesystem;

void AppendWindow(std::span<const uint8_t> text, size_t start, int64_t context,
                  TokenBatch& batch) {
  const auto window = text.subspan(start, static_cast<size_t>(context) + 1);
  batch.tokens.insert(batch.tokens.end(), window.begin(), window.end());
}

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

TextData::TextData(std::string source, std::string text, int64_t context)
    : source_(std::move(source)),
      text_(std::move(text)),
      context_(context),
      training_bytes_(text_.size() - text_.size() / 10) {}

absl::StatusOr<TextData> TextData::Checked(std::string source, std::string text,
                                           int64_t context) {
  const size_t wanted = 10 * (static_cast<size_t>(context) + 1);
  if (text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data: \"", source, "\" is empty; want at least ", wanted, " bytes"));
  }
  if (text.size() < wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data: \"", source, "\" is too short: want at least ", wanted,
        " bytes for a context of ", context, ", got ", text.size()));
  }
  return TextData(std::move(source), std::move(text), context);
}

absl::StatusOr<TextData> TextData::FromFile(const std::string& path,
                                            int64_t context) {
  absl::StatusOr<std::string> text = ReadFile("data", path);
  if (!text.ok()) return text.status();
  return Checked(path, *std::move(text), context);
}

absl::StatusOr<TextData> TextData::FromFolder(const std::string& folder,
                                              int64_t context) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string extension = it->path().extension().string();
    std::error_code ignored;
    if (extension == ".dat" || extension == ".u8") continue;
    if (it->is_regular_file(ignored)) paths.push_back(it->path().string());
  }
  if (error || paths.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "data: no text in \"", folder,
        "\"; install the package fortunes (tools/setup does), or name a file "
        "with --data"));
  }
  std::sort(paths.begin(), paths.end());
  std::string all;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> text = ReadFile("data", path);
    if (!text.ok()) return text.status();
    all += *text;
  }
  return Checked(folder, std::move(all), context);
}

std::span<const uint8_t> TextData::training() const {
  return Bytes(text_).first(training_bytes_);
}

std::span<const uint8_t> TextData::held_out() const {
  return Bytes(text_).subspan(training_bytes_);
}

TokenBatch TextData::DrawBatch(const BatchKey& key, int64_t sequences) const {
  RandomBits bits =
      RandomBits::Of({key.seed, key.step, key.rank, key.micro_batch});
  TokenBatch batch{.sequences = sequences, .context = context_};
  const size_t starts = training_bytes_ - static_cast<size_t>(context_);
  for (int64_t i = 0; i < sequences; ++i) {
    AppendWindow(training(), bits.Below(starts), context_, batch);
  }
  return batch;
}

TokenBatch TextData::HeldOutBatch(int64_t first, int64_t sequences,
                                  int64_t total) const {
  TokenBatch batch{.sequences = sequences, .context = context_};
  const size_t starts = held_out().size() - static_cast<size_t>(context_);
  for (int64_t i = first; i < first + sequences; ++i) {
    const size_t start =
        static_cast<size_t>(i) * starts / static_cast<size_t>(total);
    AppendWindow(held_out(), start, context_, batch);
  }
  return batch;
}

}  // namespace muonshard
