#include "optimizer/agreement.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/work.h"
#include "optimizer/stable_hash.h"

namespace muonshard {
namespace {

CallOptions Labeled(absl::string_view label, absl::Time deadline) {
  return {.label = std::string(label), .deadline = deadline};
}

// Gathers values of every rank that may differ in count.
template <typename T>
absl::StatusOr<std::vector<std::vector<T>>> GatherUneven(
    Collective& world, const std::vector<T>& own, absl::Time deadline) {
  const auto size = static_cast<size_t>(world.size());
  const std::array<int64_t, 1> own_count = {static_cast<int64_t>(own.size())};
  std::vector<int64_t> counts(size);
  absl::Status s = AwaitEnd(world.AllGatherV(
      ConstBuffer::Of<int64_t>(own_count), MutableBuffer::Of<int64_t>(counts),
      std::vector<int64_t>(size, 1), Labeled("agreement: counts", deadline)));
  if (!s.ok()) return s;
  std::vector<T> all(static_cast<size_t>(
      std::accumulate(counts.begin(), counts.end(), int64_t{0})));
  s = AwaitEnd(world.AllGatherV(ConstBuffer::Of<T>(own),
                                MutableBuffer::Of<T>(all), counts,
                                Labeled("agreement: values", deadline)));
  if (!s.ok()) return s;
  std::vector<std::vector<T>> result;
  auto next = all.begin();
  for (const int64_t count : counts) {
    result.emplace_back(next, next + count);
    next += count;
  }
  return result;
}

absl::StatusOr<std::vector<std::string>> GatherText(Collective& world,
                                                    absl::string_view own,
                                                    absl::Time deadline) {
  const std::vector<uint8_t> bytes(own.begin(), own.end());
  auto gathered = GatherUneven<uint8_t>(world, bytes, deadline);
  if (!gathered.ok()) return gathered.status();
  std::vector<std::string> result;
  for (const auto& text : *gathered) {
    result.emplace_back(text.begin(), text.end());
  }
  return result;
}

// The error of the first rank that has one, the same text on every rank.
absl::Status FirstError(Collective& world, const absl::Status& local,
                        absl::Time deadline) {
  std::vector<int64_t> code = {static_cast<int64_t>(local.code())};
  auto codes = GatherUneven<int64_t>(world, code, deadline);
  if (!codes.ok()) return codes.status();
  auto texts = GatherText(
      world, absl::string_view(local.message().data(), local.message().size()),
      deadline);
  if (!texts.ok()) return texts.status();
  for (size_t r = 0; r < codes->size(); ++r) {
    const auto rank_code = static_cast<absl::StatusCode>((*codes)[r][0]);
    if (rank_code == absl::StatusCode::kOk) continue;
    return absl::Status(rank_code, absl::StrCat("rank ", r, ": ", (*texts)[r]));
  }
  return absl::OkStatus();
}

absl::Status FirstDifference(Collective& world,
                             const std::vector<std::string>& lines,
                             absl::Time deadline) {
  std::vector<int64_t> hashes;
  hashes.reserve(lines.size());
  for (const std::string& line : lines) {
    hashes.push_back(static_cast<int64_t>(HashLines({line})));
  }
  auto all = GatherUneven<int64_t>(world, hashes, deadline);
  if (!all.ok()) return all.status();
  // The earliest line on which any rank differs from rank 0, and that rank.
  const std::vector<int64_t>& first = (*all)[0];
  size_t line = first.size();
  size_t other = 0;
  for (size_t r = 1; r < all->size(); ++r) {
    const std::vector<int64_t>& these = (*all)[r];
    const size_t common = std::min(first.size(), these.size());
    const auto differs = std::mismatch(
        first.begin(), first.begin() + static_cast<ptrdiff_t>(common),
        these.begin());
    const auto at = static_cast<size_t>(differs.first - first.begin());
    if (at == first.size() && first.size() == these.size()) continue;
    if (other == 0 || at < line) {
      line = at;
      other = r;
    }
  }
  auto texts = GatherText(
      world, line < lines.size() ? lines[line] : std::string("nothing"),
      deadline);
  if (!texts.ok()) return texts.status();
  return absl::FailedPreconditionError(absl::StrCat(
      "ranks were given different things: rank 0 has \"", (*texts)[0],
      "\", rank ", other, " has \"", (*texts)[other], "\""));
}

}  // namespace

absl::Status AgreeOnLines(Collective& world, const absl::Status& local,
                          const std::vector<std::string>& lines,
                          absl::Time deadline) {
  // The least of x and of -x over the ranks tell the least and the largest x;
  // one bit is dropped so that -x exists.
  const auto x = static_cast<int64_t>(HashLines(lines) >> 1);
  const auto count = static_cast<int64_t>(lines.size());
  const int64_t healthy = local.ok() ? 1 : 0;
  std::array<int64_t, 5> extremes = {x, -x, count, -count, healthy};
  const absl::Status s = AwaitEnd(world.AllReduce(
      ConstBuffer::Of<int64_t>(extremes), MutableBuffer::Of<int64_t>(extremes),
      Reduction::Min(), Labeled("agreement", deadline)));
  if (!s.ok()) return s;
  if (extremes[4] == 0) return FirstError(world, local, deadline);
  if (extremes[0] == -extremes[1] && extremes[2] == -extremes[3]) {
    return absl::OkStatus();
  }
  return FirstDifference(world, lines, deadline);
}

}  // namespace muonshard
