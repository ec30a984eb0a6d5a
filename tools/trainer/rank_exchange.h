// What ranks in processes of their own tell each other beside training:
// measurements, results and, for --verify, gradients.
//
// It goes over a group of its own, so that the bytes which are counted are
// those of training. Nothing rests on the plugin alone: each rank keeps a hash
// of all that it sent and of all that it got, and in the end they are compared
// through the store.
//
// Threads      One task of each rank; all calls are collective.
// Errors       As a Collective's. kDataLoss: what a rank got is not what was
//              sent; the text names both ranks.

#ifndef TOOLS_TRAINER_RANK_EXCHANGE_H_
#define TOOLS_TRAINER_RANK_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/runtime/runtime.h"
#include "collectives/store.h"
#include "topology/rank.h"

namespace muonshard {

class RankExchange {
 public:
  // Each call gives up after `timeout`. `world` and `store` outlive it.
  static absl::StatusOr<std::unique_ptr<RankExchange>> Create(
      Collective& world, Store& store, absl::Duration timeout);

  // What every rank gave, by rank.
  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view own);

  // After the last Gather. On rank 0 it returns when no other rank needs the
  // store any more.
  absl::Status CheckGathered();

  void Abort(const absl::Status& reason) { group_->Abort(reason); }

 private:
  RankExchange(std::unique_ptr<Collective> group, Store& store,
               absl::Duration timeout);
  absl::Status AllGather(ConstBuffer in, MutableBuffer out,
                         std::vector<int64_t> counts);
  absl::Time Deadline() const { return group_->runtime().Now() + timeout_; }

  const std::unique_ptr<Collective> group_;
  Store& store_;
  const absl::Duration timeout_;
  uint64_t sent_;
  std::vector<uint64_t> received_;  // By rank.
};

// What each rank of a job puts into `store`, by rank, before there is a group.
// kDeadlineExceeded names the ranks that are missing.
absl::StatusOr<std::vector<std::string>> ExchangeThroughStore(
    Store& store, absl::string_view topic, Rank rank, int32_t size,
    absl::string_view own, absl::Time deadline);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_RANK_EXCHANGE_H_
