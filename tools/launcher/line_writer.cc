#include "tools/launcher/line_writer.h"

#include <cstddef>

namespace muonshard {
namespace {

constexpr size_t kLineBytesMax = size_t{1} << 20;

}  // namespace

void LineWriter::Add(absl::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const bool ends = end != absl::string_view::npos;
    begun_.append(text.data(), ends ? end : text.size());
    text.remove_prefix(ends ? end + 1 : text.size());
    if (!ends && begun_.size() < kLineBytesMax) break;
    Write(begun_);
    begun_.clear();
  }
  out_.flush();
}

void LineWriter::Finish() {
  if (begun_.empty()) return;
  Write(begun_);
  begun_.clear();
  out_.flush();
}

void LineWriter::Write(absl::string_view line) {
  out_ << prefix_ << line << '\n';
}

}  // namespace muonshard
