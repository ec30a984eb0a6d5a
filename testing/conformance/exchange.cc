#include "testing/conformance/exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muonshard::testing {

absl::Status MakeExchanges(std::span<Exchange> exchanges, Collective& group,
                           Pace pace, absl::Time deadline) {
  const auto rank = static_cast<size_t>(ToInt(group.rank()));
  std::vector<Work> works;
  for (Exchange& exchange : exchanges) {
    absl::StatusOr<Work> work =
        exchange.call(group, exchange.in[rank], exchange.out[rank]);
    if (!work.ok()) return work.status();
    if (pace == Pace::kAllAtOnce) {
      works.push_back(*std::move(work));
      continue;
    }
    if (absl::Status s = work->Wait(deadline); !s.ok()) return s;
  }
  for (const Work& work : works) {
    if (absl::Status s = work.Wait(deadline); !s.ok()) return s;
  }
  return absl::OkStatus();
}

Segments::Segments(std::vector<int64_t> counts)
    : counts_(std::move(counts)), begins_(1, 0) {
  for (const int64_t count : counts_) begins_.push_back(begins_.back() + count);
}

std::string ToString(const std::vector<int64_t>& counts) {
  return absl::StrCat("[", absl::StrJoin(counts, ", "), "]");
}

std::vector<Segments> SegmentsToTry(size_t ranks, uint64_t seed) {
  const auto cut = [ranks](auto&& count_of) {
    std::vector<int64_t> counts;
    for (size_t r = 0; r < ranks; ++r) counts.push_back(count_of(r));
    return Segments(std::move(counts));
  };
  std::vector<Segments> all;
  all.push_back(cut([](size_t) { return 0; }));
  all.push_back(cut([](size_t) { return 5; }));
  all.push_back(cut([&](size_t r) { return r + 1 == ranks ? 13 : 0; }));
  all.push_back(cut([](size_t r) { return r % 2 == 0 ? 0 : 3; }));
  for (uint64_t round = 0; round < 3; ++round) {
    all.push_back(cut([&](size_t r) {
      return static_cast<int64_t>(Seed(seed, round, r) % 20);
    }));
  }
  return all;
}

Segments LargeSegments(size_t ranks, DataType type) {
  std::vector<int64_t> counts(ranks, 0);
  counts.back() = LargeCount(type);
  counts.front() += 1;
  return Segments(std::move(counts));
}

int64_t LargeCount(DataType type) {
  switch (ByteWidth(type)) {
    case 1:
      return 65537;
    case 2:
      return 32771;
    case 4:
      return 16411;
    default:
      return 8209;
  }
}

std::vector<DataType> PromisedDataTypes(const Capabilities& promises) {
  std::vector<DataType> types;
  for (const DataType type : kAllDataTypes) {
    const uint64_t bit = uint64_t{1} << static_cast<uint32_t>(type);
    if ((promises.data_types & bit) != 0) types.push_back(type);
  }
  return types;
}

std::vector<DataType> OneTypeOfEachWidth(const Capabilities& promises) {
  std::vector<DataType> types;
  for (const DataType type : PromisedDataTypes(promises)) {
    const bool is_new = std::ranges::none_of(types, [type](DataType other) {
      return ByteWidth(other) == ByteWidth(type);
    });
    if (is_new) types.push_back(type);
  }
  return types;
}

std::vector<Reduction> PromisedReductions(const Capabilities& promises,
                                          DataType type) {
  std::vector<Reduction> reductions;
  for (const Reduction& reduction :
       {Reduction::Sum(), Reduction::Min(), Reduction::Max(),
        Reduction::Average(), Reduction::ScaledSum(1.0 / 3)}) {
    const uint64_t bit = uint64_t{1} << static_cast<uint32_t>(reduction.kind);
    const bool has_scale = reduction.kind == ReductionKind::kAverage ||
                           reduction.kind == ReductionKind::kScaledSum;
    if ((promises.reductions & bit) == 0) continue;
    if (has_scale && !IsFloating(type)) continue;
    reductions.push_back(reduction);
  }
  return reductions;
}

std::vector<Reduction> ExactReductions(const Capabilities& promises,
                                       DataType type) {
  std::vector<Reduction> reductions = PromisedReductions(promises, type);
  std::erase_if(reductions, [](const Reduction& reduction) {
    return reduction.kind == ReductionKind::kAverage;
  });
  for (Reduction& reduction : reductions) {
    if (reduction.kind == ReductionKind::kScaledSum) reduction.scale = 0.5;
  }
  return reductions;
}

std::string ToString(const Reduction& reduction) {
  switch (reduction.kind) {
    case ReductionKind::kSum:
      return "sum";
    case ReductionKind::kMin:
      return "min";
    case ReductionKind::kMax:
      return "max";
    case ReductionKind::kAverage:
      return "average";
    case ReductionKind::kScaledSum:
      return absl::StrCat("sum scaled by ", reduction.scale);
  }
  return "unknown";
}

std::vector<Elements> Contributions(MakeElements make, size_t ranks,
                                    DataType type, int64_t count,
                                    uint64_t seed) {
  std::vector<Elements> contributions;
  for (size_t r = 0; r < ranks; ++r) {
    contributions.push_back(make(type, count, Seed(seed, r)));
  }
  return contributions;
}

}  // namespace muonshard::testing
