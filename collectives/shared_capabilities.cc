#include "collectives/shared_capabilities.h"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace muonshard {
namespace {

// The bit sets of muonshard_caps that become a Capabilities.
using Promises = std::array<uint64_t, 4>;

Promises PromisesOf(const muonshard_caps& caps) {
  return {caps.operations, caps.data_types, caps.reductions, caps.features};
}

Capabilities CapabilitiesOf(const Promises& promises) {
  const auto [operations, data_types, reductions, features] = promises;
  Capabilities capabilities;
  capabilities.operations = operations;
  capabilities.data_types = data_types;
  capabilities.reductions = reductions;
  const auto has = [features = features](uint64_t bit) {
    return (features & bit) != 0;
  };
  capabilities.canonical = has(MUONSHARD_FEATURE_CANONICAL);
  capabilities.repeatable = has(MUONSHARD_FEATURE_REPEATABLE);
  capabilities.mismatch_detected = has(MUONSHARD_FEATURE_MISMATCH_DETECTED);
  capabilities.deadlock_detected = has(MUONSHARD_FEATURE_DEADLOCK_DETECTED);
  capabilities.split = has(MUONSHARD_FEATURE_SPLIT);
  capabilities.window = has(MUONSHARD_FEATURE_WINDOW);
  capabilities.exact_counters = has(MUONSHARD_FEATURE_EXACT_COUNTERS);
  return capabilities;
}

absl::StatusOr<Promises> ParsePromises(absl::string_view text) {
  const std::vector<absl::string_view> fields = absl::StrSplit(text, ' ');
  Promises promises = {};
  bool parsed = fields.size() == promises.size();
  for (size_t i = 0; parsed && i < promises.size(); ++i) {
    parsed = absl::SimpleAtoi(fields[i], &promises[i]);
  }
  if (!parsed) {
    return absl::DataLossError(absl::StrCat(
        "want the capabilities of a rank in the store, got \"", text, "\""));
  }
  return promises;
}

absl::StatusOr<Promises> GetPromises(Store& store, absl::string_view key,
                                     absl::Time deadline) {
  const absl::StatusOr<std::string> text = store.Get(key, deadline);
  if (!text.ok()) return text.status();
  return ParsePromises(*text);
}

// Names the ranks whose keys have not come. `waited` is what ended the wait for
// one of them, or for the rank that waits for all.
template <typename RankKey>
absl::Status NameAbsent(Store& store, absl::string_view group, int32_t size,
                        const RankKey& rank_key, const absl::Status& waited) {
  if (!absl::IsDeadlineExceeded(waited)) return waited;
  std::vector<std::string> absent;
  for (int32_t r = 0; r < size; ++r) {
    if (store.Get(rank_key(r), absl::InfinitePast()).ok()) continue;
    absent.push_back(absl::StrCat("rank ", r));
  }
  if (absent.empty()) return waited;
  return absl::DeadlineExceededError(
      absl::StrCat("group \"", group, "\": ", absl::StrJoin(absent, ", "),
                   " did not share capabilities before the deadline"));
}

}  // namespace

absl::StatusOr<Capabilities> SharedCapabilities(const muonshard_caps& caps,
                                                Store& store,
                                                absl::string_view group,
                                                Rank rank, int32_t size,
                                                absl::Time deadline) {
  Promises promises = PromisesOf(caps);
  if (size == 1) return CapabilitiesOf(promises);

  // Every rank counts the groups of this name that it has been in, so that
  // what an earlier one left in the store is not read.
  const auto key = [group](absl::string_view what) {
    return absl::StrCat(group, "/capabilities/", what);
  };
  const absl::StatusOr<int64_t> generation =
      store.Add(key(absl::StrCat("rank", ToInt(rank))), 1);
  if (!generation.ok()) return generation.status();
  const auto rank_key = [&](int32_t r) {
    return key(absl::StrCat(*generation, "/rank", r));
  };
  const std::string shared_key = key(absl::StrCat(*generation, "/shared"));

  if (absl::Status s =
          store.Put(rank_key(ToInt(rank)), absl::StrJoin(promises, " "));
      !s.ok()) {
    return s;
  }
  if (rank != Rank{0}) {
    const absl::StatusOr<Promises> shared =
        GetPromises(store, shared_key, deadline);
    if (shared.ok()) return CapabilitiesOf(*shared);
    return NameAbsent(store, group, size, rank_key, shared.status());
  }
  for (int32_t r = 1; r < size; ++r) {
    const absl::StatusOr<Promises> others =
        GetPromises(store, rank_key(r), deadline);
    if (!others.ok()) {
      return NameAbsent(store, group, size, rank_key, others.status());
    }
    for (size_t i = 0; i < promises.size(); ++i) promises[i] &= (*others)[i];
  }
  if (absl::Status s = store.Put(shared_key, absl::StrJoin(promises, " "));
      !s.ok()) {
    return s;
  }
  return CapabilitiesOf(promises);
}

}  // namespace muonshard
