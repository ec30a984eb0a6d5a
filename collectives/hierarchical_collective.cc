#include "collectives/hierarchical_collective.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/call_order.h"
#include "collectives/capabilities.h"
#include "collectives/level_operations.h"
#include "collectives/runtime/runtime.h"

namespace muonshard {
namespace {

class HierarchicalCollective final : public Collective {
 public:
  explicit HierarchicalCollective(HierarchyLevels levels)
      : Collective(levels.whole->runtime(), levels.whole->rank(),
                   levels.whole->size(), levels.whole->name(),
                   CapabilitiesOfLevels(levels.whole->capabilities(),
                                        levels.host_level->capabilities(),
                                        levels.lane_level->capabilities())),
        place_(PlaceIn(levels)),
        levels_(std::make_shared<const HierarchyLevels>(std::move(levels))),
        breaker_(std::make_shared<Breaker>(levels_)),
        order_(std::make_shared<CallOrder>(
            [breaker = breaker_](const absl::Status& error) {
              breaker->Break(error);
            })) {}

  ~HierarchicalCollective() override { breaker_->Leave(); }

  absl::StatusOr<std::unique_ptr<Collective>> Split(
      int32_t color, int32_t key, absl::string_view name,
      absl::Time deadline) override {
    return levels_->whole->Split(color, key, name, deadline);
  }

  void Abort(const absl::Status& reason) override {
    levels_->whole->Abort(reason);
    levels_->host_level->Abort(reason);
    levels_->lane_level->Abort(reason);
  }

  // The whole group decides which error was the first, since all ranks see it.
  absl::Status Health() const override {
    for (const Collective* level :
         {levels_->host_level.get(), levels_->lane_level.get(),
          levels_->whole.get()}) {
      if (absl::Status s = level->Health(); !s.ok()) {
        BreakAll(*levels_, s);
        return levels_->whole->Health();
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CollectiveCounters> Counters() const override;

  // Ranks of one host meet in its level.
  absl::StatusOr<std::unique_ptr<CollectiveMemory>> NewMemory(
      int64_t bytes, absl::Time deadline) override {
    return levels_->host_level->NewMemory(bytes, deadline);
  }

 private:
  // Breaks the levels when a part of a call ends with an error, which a plugin
  // tells in a task of its own, maybe while this collective is destroyed. A
  // call that outlives the collective breaks nothing.
  class Breaker {
   public:
    explicit Breaker(std::shared_ptr<const HierarchyLevels> levels)
        : runtime_(levels->whole->runtime()),
          mutex_(runtime_.NewMutex()),
          ended_(runtime_.NewCondition()),
          levels_(std::move(levels)) {}

    void Break(const absl::Status& error) {
      const uint64_t task = runtime_.CurrentTaskId();
      std::shared_ptr<const HierarchyLevels> levels;
      {
        const MutexLock lock(*mutex_);
        if (levels_ == nullptr) return;
        levels = levels_;
        tasks_.push_back(task);
      }
      // Ends other parts of calls, which come here again, and whose callbacks
      // may destroy the collective.
      BreakAll(*levels, error);
      levels.reset();
      const MutexLock lock(*mutex_);
      tasks_.erase(std::find(tasks_.begin(), tasks_.end(), task));
      ended_->NotifyAll();
    }

    // Waits until no other task holds the levels, so that they are freed by the
    // one that destroys the collective and not by a task of a plugin.
    void Leave() {
      const uint64_t task = runtime_.CurrentTaskId();
      const MutexLock lock(*mutex_);
      levels_ = nullptr;
      while (std::any_of(tasks_.begin(), tasks_.end(),
                         [task](uint64_t other) { return other != task; })) {
        ended_->Wait(*mutex_, absl::InfiniteFuture());
      }
    }

   private:
    Runtime& runtime_;
    const std::unique_ptr<Mutex> mutex_;
    const std::unique_ptr<Condition> ended_;
    // Guarded by mutex_.
    std::shared_ptr<const HierarchyLevels> levels_;  // Null: left.
    std::vector<uint64_t> tasks_;  // That are breaking, once for each call.
  };

  static HostAndLane PlaceIn(const HierarchyLevels& levels) {
    return {.hosts = levels.lane_level->size(),
            .lanes = levels.host_level->size(),
            .host = ToInt(levels.lane_level->rank()),
            .lane = ToInt(levels.host_level->rank())};
  }

  static void BreakAll(const HierarchyLevels& levels,
                       const absl::Status& error) {
    BreakWith(*levels.whole, error);
    BreakWith(*levels.host_level, error);
    BreakWith(*levels.lane_level, error);
  }

  absl::StatusOr<LoweredCall> Lower(Operation operation) override;

  void Break(const absl::Status& error) override { BreakAll(*levels_, error); }

  // Puts what `group` makes of `operations` behind `call`.
  static absl::Status AppendLevels(Collective& group,
                                   std::vector<Operation> operations,
                                   LoweredCall& call);

  const HostAndLane place_;
  const std::shared_ptr<const HierarchyLevels> levels_;
  const std::shared_ptr<Breaker> breaker_;
  const std::shared_ptr<CallOrder> order_;
};

absl::Status HierarchicalCollective::AppendLevels(
    Collective& group, std::vector<Operation> operations, LoweredCall& call) {
  const size_t first = call.levels.size();
  for (Operation& operation : operations) {
    absl::StatusOr<LoweredCall> part = LowerWith(group, std::move(operation));
    if (!part.ok()) return part.status();
    if (call.levels.size() < first + part->levels.size()) {
      call.levels.resize(first + part->levels.size());
    }
    for (size_t i = 0; i < part->levels.size(); ++i) {
      std::move(part->levels[i].begin(), part->levels[i].end(),
                std::back_inserter(call.levels[first + i]));
    }
    std::move(part->scratch.begin(), part->scratch.end(),
              std::back_inserter(call.scratch));
  }
  return absl::OkStatus();
}

absl::StatusOr<LoweredCall> HierarchicalCollective::Lower(Operation operation) {
  // A level that broke while no call was in flight breaks the others here.
  if (absl::Status s = Health(); !s.ok()) return s;
  const bool through_levels = GoesThroughLevels(operation.kind);
  CallFootprint footprint = FootprintOf(operation, through_levels);
  LoweredCall call;
  if (through_levels) {
    HierarchicalOperation lowered = ToLevels(operation, place_);
    for (LevelOperations& part : lowered.sequence) {
      Collective& group = part.level == HierarchyLevel::kHost
                              ? *levels_->host_level
                              : *levels_->lane_level;
      if (absl::Status s =
              AppendLevels(group, std::move(part.operations), call);
          !s.ok()) {
        return s;
      }
    }
    call.ready = std::move(operation.options.ready);
    if (lowered.scratch != nullptr) {
      call.scratch.push_back(std::move(lowered.scratch));
    }
  } else {
    absl::StatusOr<LoweredCall> flat =
        LowerWith(*levels_->whole, std::move(operation));
    if (!flat.ok()) return flat.status();
    call = *std::move(flat);
  }
  call.order = order_;
  call.footprint = std::move(footprint);
  return call;
}

absl::StatusOr<CollectiveCounters> HierarchicalCollective::Counters() const {
  absl::StatusOr<CollectiveCounters> all = levels_->whole->Counters();
  if (!all.ok()) return all.status();
  const absl::StatusOr<CollectiveCounters> host =
      levels_->host_level->Counters();
  if (!host.ok()) return host.status();
  const absl::StatusOr<CollectiveCounters> lane =
      levels_->lane_level->Counters();
  if (!lane.ok()) return lane.status();
  // Whatever goes through the levels is one call of its own kind in the lane.
  for (size_t kind = 0; kind < all->calls.size(); ++kind) {
    all->calls[kind] += lane->calls[kind];
  }
  const auto sent_to = [&all, this](int32_t h, int32_t l) -> uint64_t& {
    return all->bytes_sent_to[static_cast<size_t>(place_.RankOf(h, l))];
  };
  for (int32_t l = 0; l < place_.lanes; ++l) {
    sent_to(place_.host, l) += host->bytes_sent_to[static_cast<size_t>(l)];
  }
  for (int32_t h = 0; h < place_.hosts; ++h) {
    sent_to(h, place_.lane) += lane->bytes_sent_to[static_cast<size_t>(h)];
  }
  return all;
}

absl::Status CheckLevels(const HierarchyLevels& levels) {
  const auto error = [](const auto&... text) {
    return absl::InvalidArgumentError(absl::StrCat("a hierarchy ", text...));
  };
  if (levels.whole == nullptr) return error("wants the whole group, got none");
  const Collective& whole = *levels.whole;
  const std::string name = absl::StrCat("of group \"", whole.name(), "\" ");
  if (levels.host_level == nullptr) {
    return error(name, "wants a host level, got none");
  }
  if (levels.lane_level == nullptr) {
    return error(name, "wants a lane level, got none");
  }
  const Collective& host = *levels.host_level;
  const Collective& lane = *levels.lane_level;
  if (host.size() * int64_t{lane.size()} != whole.size()) {
    return error(name, "wants hosts times lanes to be ", whole.size(), ", got ",
                 lane.size(), " hosts of ", host.size(), " lanes");
  }
  const int32_t host_rank = ToInt(whole.rank()) % host.size();
  const int32_t lane_rank = ToInt(whole.rank()) / host.size();
  if (ToInt(host.rank()) != host_rank || ToInt(lane.rank()) != lane_rank) {
    return error(name, "wants rank ", ToInt(whole.rank()), " to be lane ",
                 host_rank, " of host ", lane_rank, ", got lane ",
                 ToInt(host.rank()), " of host ", ToInt(lane.rank()));
  }
  if (&host.runtime() != &whole.runtime() ||
      &lane.runtime() != &whole.runtime()) {
    return error(name, "wants all its levels on one runtime");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> NewHierarchicalCollective(
    HierarchyLevels levels) {
  if (absl::Status s = CheckLevels(levels); !s.ok()) return s;
  return std::make_unique<HierarchicalCollective>(std::move(levels));
}

}  // namespace muonshard
