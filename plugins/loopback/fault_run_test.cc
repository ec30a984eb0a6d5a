#include "plugins/loopback/fault_run_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/batch.h"
#include "collectives/collective.h"
#include "collectives/plugin.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/sim_runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/store.h"
#include "collectives/work.h"
#include "topology/rank.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

constexpr size_t kCount = 12;

// One rank of the program.
class Program {
 public:
  Program(const FaultRunOptions& options, Plugin& plugin, Store& store,
          Runtime& runtime, Rank rank)
      : options_(options),
        plugin_(plugin),
        store_(store),
        runtime_(runtime),
        rank_(ToInt(rank)) {}

  absl::Status Run() {
    absl::Status result = Take();
    if (!result.ok()) {
      if (half_ != nullptr) half_->Abort(result);
      if (world_ != nullptr) world_->Abort(result);
    }
    // The buffers are the works' until these have ended.
    for (const Work& work : works_) {
      work.Wait(absl::InfiniteFuture()).IgnoreError();
    }
    works_.clear();
    half_.reset();
    world_.reset();
    return result;
  }

 private:
  absl::Status Take() {
    if (absl::Status s = MakeWorld(); !s.ok()) return s;
    if (absl::Status s = AllReduce(); !s.ok()) return s;
    if (absl::Status s = Split(); !s.ok()) return s;
    if (absl::Status s = PostTwo(); !s.ok()) return s;
    if (absl::Status s = AllGather(); !s.ok()) return s;
    if (absl::Status s = Exchange(); !s.ok()) return s;
    if (absl::Status s = Broadcast(); !s.ok()) return s;
    return Ended(world_->Barrier(Call("h")));
  }

  absl::Status MakeWorld() {
    auto group = plugin_.NewGroup({.rank = Rank{rank_},
                                   .size = options_.size,
                                   .deadline = Deadline(),
                                   .store = &store_});
    if (!group.ok()) return group.status();
    world_ = *std::move(group);
    return absl::OkStatus();
  }

  absl::Status AllReduce() {
    const absl::Status s = Ended(world_->AllReduce(
        ConstBuffer::Of<float>(in_), MutableBuffer::Of<float>(out_),
        Reduction::Sum(), Call("a")));
    if (!s.ok()) return s;
    EXPECT_THAT(out_, Each(SumOver(0, 1)));
    return s;
  }

  absl::Status Split() {
    auto group = world_->Split(rank_ % 2, 0, "half", Deadline());
    if (!group.ok()) return group.status();
    half_ = *std::move(group);
    EXPECT_EQ(half_->size(), static_cast<int32_t>(HalfSize()));
    return absl::OkStatus();
  }

  absl::Status PostTwo() {
    const std::vector<int64_t> counts(HalfSize(), kCount / HalfSize());
    Batch batch;
    if (absl::Status s = batch.Add(
            *half_, {.kind = OperationKind::kReduceScatterV,
                     .data_type = DataType::kF32,
                     .in = ConstBuffer::Of<float>(in_),
                     .out = MutableBuffer::Of<float>(
                         std::span(scattered_).first(kCount / HalfSize())),
                     .in_counts = counts,
                     .options = Call("b")});
        !s.ok()) {
      return s;
    }
    if (absl::Status s =
            batch.Add(*world_, {.kind = OperationKind::kAllReduce,
                                .data_type = DataType::kF32,
                                .reduction = Reduction::Max(),
                                .in = ConstBuffer::Of<float>(in_place_),
                                .out = MutableBuffer::Of<float>(in_place_),
                                .options = Call("c")});
        !s.ok()) {
      return s;
    }
    absl::StatusOr<std::vector<Work>> works = batch.Post();
    if (!works.ok()) return works.status();
    works_.insert(works_.end(), works->begin(), works->end());
    for (const Work& work : *works) {
      if (absl::Status s = work.Wait(absl::InfiniteFuture()); !s.ok()) return s;
    }
    EXPECT_THAT(std::span(scattered_).first(kCount / HalfSize()),
                Each(SumOver(rank_ % 2, 2)));
    EXPECT_THAT(in_place_, Each(static_cast<float>(options_.size)));
    return absl::OkStatus();
  }

  absl::Status AllGather() {
    const size_t each = kCount / HalfSize();
    const std::vector<int64_t> counts(HalfSize(), static_cast<int64_t>(each));
    const absl::Status s = Ended(half_->AllGatherV(
        ConstBuffer::Of<float>(std::span<const float>(in_).first(each)),
        MutableBuffer::Of<float>(gathered_), counts, Call("d")));
    if (!s.ok()) return s;
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(gathered_[i],
                static_cast<float>(rank_ % 2 + 1 + 2 * int32_t(i / each)));
    }
    return s;
  }

  // To the next rank, and from the one before.
  absl::Status Exchange() {
    const int32_t next = (rank_ + 1) % options_.size;
    const int32_t last = (rank_ + options_.size - 1) % options_.size;
    const auto sent =
        Kept(world_->Send(ConstBuffer::Of<float>(in_), Rank{next}, Call("e")));
    if (!sent.ok()) return sent.status();
    const auto received = Kept(world_->Recv(MutableBuffer::Of<float>(received_),
                                            Rank{last}, Call("f")));
    if (absl::Status s = Ended(received); !s.ok()) return s;
    EXPECT_THAT(received_, Each(static_cast<float>(last + 1)));
    return Ended(sent);
  }

  absl::Status Broadcast() {
    const int32_t root = options_.size - 1;
    const std::span<const float> in(in_);
    const absl::Status s = Ended(world_->Broadcast(
        ConstBuffer::Of<float>(rank_ == root ? in : in.first(0)),
        MutableBuffer::Of<float>(broadcast_), Rank{root}, Call("g")));
    if (!s.ok()) return s;
    EXPECT_THAT(broadcast_, Each(static_cast<float>(root + 1)));
    return s;
  }

  CallOptions Call(const char* label) const {
    return {.label = label, .deadline = Deadline()};
  }
  absl::Time Deadline() const { return runtime_.Now() + options_.patience; }

  absl::StatusOr<Work> Kept(absl::StatusOr<Work> work) {
    if (work.ok()) works_.push_back(*work);
    return work;
  }
  absl::Status Ended(const absl::StatusOr<Work>& work) {
    const absl::StatusOr<Work> kept = Kept(work);
    return kept.ok() ? kept->Wait(absl::InfiniteFuture()) : kept.status();
  }

  size_t HalfSize() const {
    return static_cast<size_t>((options_.size + 1 - rank_ % 2) / 2);
  }
  // Of what the ranks `first`, `first` + `step`, ... have in `in_`.
  float SumOver(int32_t first, int32_t step) const {
    float sum = 0;
    for (int32_t rank = first; rank < options_.size; rank += step) {
      sum += static_cast<float>(rank + 1);
    }
    return sum;
  }

  const FaultRunOptions& options_;
  Plugin& plugin_;
  Store& store_;
  Runtime& runtime_;
  const int32_t rank_;

  const std::vector<float> in_ =
      std::vector<float>(kCount, static_cast<float>(rank_ + 1));
  std::vector<float> in_place_ = in_;
  std::vector<float> out_ = std::vector<float>(kCount);
  std::vector<float> scattered_ = std::vector<float>(kCount);
  std::vector<float> gathered_ = std::vector<float>(kCount);
  std::vector<float> received_ = std::vector<float>(kCount);
  std::vector<float> broadcast_ = std::vector<float>(kCount);
  std::vector<Work> works_;
  std::unique_ptr<Collective> world_;
  std::unique_ptr<Collective> half_;
};

void RunPrograms(Runtime& runtime, const FaultRunOptions& options,
                 FaultRun* run) {
  const std::string json =
      absl::StrCat("{\"small_bytes\": ", options.small_bytes,
                   ", \"checks\": ", options.checks ? 1 : 0, ", \"faults\": \"",
                   options.faults, "\"}");
  const auto plugin =
      Plugin::Open(PluginSearchFromEnvironment("loopback", json), runtime);
  if (!plugin.ok()) {
    run->report = std::string(plugin.status().message());
    run->results.assign(static_cast<size_t>(options.size), plugin.status());
    return;
  }
  const std::unique_ptr<Store> store = NewInProcessStore(runtime);
  run->results = RunRanks(runtime, options.size, [&](Rank rank) {
    const absl::Time start = runtime.Now();
    absl::Status result =
        Program(options, **plugin, *store, runtime, rank).Run();
    run->durations[static_cast<size_t>(ToInt(rank))] = runtime.Now() - start;
    return result;
  });
  const absl::StatusOr<std::string> report = (*plugin)->Report();
  run->report = report.ok() ? *report : report.status().ToString();
}

}  // namespace

FaultRun RunWithFaults(const FaultRunOptions& options) {
  FaultRun run;
  run.durations.resize(static_cast<size_t>(options.size));
  if (options.runtime.kind == RuntimeCase::Kind::kThreads) {
    const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
    RunPrograms(*runtime, options, &run);
    return run;
  }
  const std::unique_ptr<SimRuntime> runtime =
      SimRuntime::Create({.seed = options.runtime.seed});
  const absl::Status ended =
      runtime->Run([&] { RunPrograms(*runtime, options, &run); });
  run.results.resize(static_cast<size_t>(options.size));
  for (absl::Status& result : run.results) {
    if (result.ok()) result = ended;
  }
  return run;
}

}  // namespace muonshard::testing
