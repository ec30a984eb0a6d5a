#include "optimizer/resync.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/work.h"

namespace muonshard {
namespace {

bool CanFollow(const StepStanding& standing, int64_t step) {
  return standing.decided == step || standing.kept == step;
}

// `values` of `teller`. The counts are the same on all ranks: their plan and
// step are.
absl::StatusOr<std::vector<int64_t>> ToldBy(Rank teller,
                                            std::vector<int64_t> values,
                                            absl::string_view label,
                                            Collective& world,
                                            absl::Time deadline) {
  const std::span<const int64_t> told(
      values.data(), world.rank() == teller ? values.size() : 0);
  const absl::Status s = AwaitEnd(world.Broadcast(
      ConstBuffer::Of<int64_t>(told), MutableBuffer::Of<int64_t>(values),
      teller,
      {.label = absl::StrCat("resync: ", label), .deadline = deadline}));
  if (!s.ok()) return s;
  return values;
}

}  // namespace

absl::StatusOr<CommonStep> CommonStepOf(
    std::span<const StepStanding> standings) {
  CommonStep common;
  for (const StepStanding& standing : standings) {
    common.step = std::max(common.step, standing.decided);
  }
  std::string lost;
  bool any_is_behind = false;
  for (size_t r = 0; r < standings.size(); ++r) {
    const StepStanding& standing = standings[r];
    any_is_behind |= standing.decided < common.step;
    if (CanFollow(standing, common.step)) continue;
    absl::StrAppend(&lost, lost.empty() ? "" : ", ", "rank ", r,
                    " decided step ", standing.decided, " last and kept ",
                    standing.kept == 0 ? std::string("no other")
                                       : absl::StrCat("step ", standing.kept));
  }
  if (!lost.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("resync: want every rank to have decided step ",
                     common.step, " or to have kept its gradients, got: ", lost,
                     "; only state restored on all ranks helps"));
  }
  for (size_t r = 0; any_is_behind && r < standings.size(); ++r) {
    if (standings[r].decided != common.step) continue;
    common.teller = Rank{static_cast<int32_t>(r)};
    break;
  }
  return common;
}

absl::StatusOr<std::vector<StepStanding>> ExchangeStandings(
    Collective& world, const StepStanding& own, absl::Time deadline) {
  const auto size = static_cast<size_t>(world.size());
  const std::vector<int64_t> mine = {own.decided, own.kept};
  std::vector<int64_t> all(2 * size);
  const absl::Status s = AwaitEnd(world.AllGatherV(
      ConstBuffer::Of<int64_t>(mine), MutableBuffer::Of<int64_t>(all),
      std::vector<int64_t>(size, 2),
      {.label = "resync: standings", .deadline = deadline}));
  if (!s.ok()) return s;
  std::vector<StepStanding> standings;
  for (size_t r = 0; r < size; ++r) {
    standings.push_back({.decided = all[2 * r], .kept = all[2 * r + 1]});
  }
  return standings;
}

absl::Status ShareControl(Collective& world, Rank teller, StepRecord& record,
                          absl::Time deadline) {
  auto sums = ToldBy(teller, record.sums, "sums", world, deadline);
  if (!sums.ok()) return sums.status();
  auto least = ToldBy(teller, record.least, "least", world, deadline);
  if (!least.ok()) return least.status();
  record.sums = *std::move(sums);
  record.least = *std::move(least);
  return absl::OkStatus();
}

}  // namespace muonshard
