// Wrong calls: refused before anything is sent, with what was wanted and what
// was got, and the group stays usable.

#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "collectives/check_operation.h"
#include "testing/conformance/collective_conformance.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {
namespace {

using ::testing::Each;

// What a wrong call has to work with. A buffer of no type but f32.
struct Material {
  Collective& group;
  Elements in = Elements(DataType::kF32, 64);
  Elements out = Elements(DataType::kF32, 64);

  std::vector<int64_t> Counts(int64_t each, int32_t more_entries = 0) const {
    return std::vector<int64_t>(
        static_cast<size_t>(group.size() + more_entries), each);
  }
};

struct WrongCall {
  std::string name;
  std::function<absl::StatusOr<Work>(Material&)> call;
  // Both must be in the message.
  std::string wanted;
  std::string got;
};

std::vector<WrongCall> WrongBuffers() {
  return {
      {"AllReduce into fewer elements",
       [](Material& m) {
         return m.group.AllReduce(m.in.in(0, 31), m.out.out(0, 29),
                                  Reduction::Sum());
       },
       "31", "29"},
      {"AllReduce into another type",
       [](Material& m) {
         MutableBuffer out = m.out.out();
         out.type = DataType::kI32;
         return m.group.AllReduce(m.in.in(), out, Reduction::Sum());
       },
       "f32", "i32"},
      {"AllReduce of elements without memory",
       [](Material& m) {
         return m.group.AllReduce({nullptr, 64, DataType::kF32}, m.out.out(),
                                  Reduction::Sum());
       },
       "memory", "64"},
      {"AllReduce of fewer than no elements",
       [](Material& m) {
         ConstBuffer in = m.in.in();
         in.count = -3;
         return m.group.AllReduce(in, m.out.out(), Reduction::Sum());
       },
       "elements", "-3"},
      {"AllReduce of buffers that overlap in part",
       [](Material& m) {
         return m.group.AllReduce(m.out.in(0, 32), m.out.out(1, 32),
                                  Reduction::Sum());
       },
       "in place", "overlap"},
      {"AllGatherV from another place of its output",
       [](Material& m) {
         const auto own = static_cast<int64_t>(IndexOf(m.group.rank()));
         return m.group.AllGatherV(m.out.in(own * 2 + 1, 2),
                                   m.out.out(0, 2 * m.group.size()),
                                   m.Counts(2));
       },
       "in place", "overlap"},
      {"AllToAllV in place",
       [](Material& m) {
         return m.group.AllToAllV(m.out.in(0, 2 * m.group.size()),
                                  m.out.out(0, 2 * m.group.size()), m.Counts(2),
                                  m.Counts(2));
       },
       "in place", "overlap"},
      {"Reduce without an output on the root",
       [](Material& m) {
         return m.group.Reduce(m.in.in(0, 31), m.out.out(0, 0),
                               Reduction::Sum(), m.group.rank());
       },
       "31", "0"},
      {"Broadcast without an input on the root",
       [](Material& m) {
         return m.group.Broadcast(m.in.in(0, 0), m.out.out(0, 31),
                                  m.group.rank());
       },
       "31", "0"},
  };
}

std::vector<WrongCall> WrongCounts() {
  return {
      {"ReduceScatterV with a count too many",
       [](Material& m) {
         return m.group.ReduceScatterV(m.in.in(0, m.group.size() + 1),
                                       m.out.out(0, 1), m.Counts(1, 1),
                                       Reduction::Sum());
       },
       "want", "in_counts"},
      {"ReduceScatterV of more than its counts",
       [](Material& m) {
         return m.group.ReduceScatterV(m.in.in(0, 61), m.out.out(0, 3),
                                       m.Counts(3), Reduction::Sum());
       },
       "want", "61"},
      {"ReduceScatterV into more than the own segment",
       [](Material& m) {
         return m.group.ReduceScatterV(m.in.in(0, 3 * m.group.size()),
                                       m.out.out(0, 41), m.Counts(3),
                                       Reduction::Sum());
       },
       "3", "41"},
      {"ReduceScatterV with a negative count",
       [](Material& m) {
         return m.group.ReduceScatterV(m.in.in(0, 0), m.out.out(0, 0),
                                       m.Counts(-7), Reduction::Sum());
       },
       "segment", "-7"},
      {"ReduceScatterV with counts whose sum is no number",
       [](Material& m) {
         return m.group.ReduceScatterV(
             m.in.in(0, 0), m.out.out(0, 0),
             m.Counts(std::numeric_limits<int64_t>::max()), Reduction::Sum());
       },
       "segment", "9223372036854775807"},
      {"AllGatherV with a count missing",
       [](Material& m) {
         return m.group.AllGatherV(m.in.in(0, 1), m.out.out(0, 1),
                                   m.Counts(1, -1));
       },
       "want", "out_counts"},
      {"AllGatherV of more than the own segment",
       [](Material& m) {
         return m.group.AllGatherV(
             m.in.in(0, 41), m.out.out(0, 3 * m.group.size()), m.Counts(3));
       },
       "3", "41"},
      {"AllGatherV into less than all segments",
       [](Material& m) {
         return m.group.AllGatherV(m.in.in(0, 3), m.out.out(0, 2), m.Counts(3));
       },
       "want", "2"},
      {"AllToAllV with a count too many",
       [](Material& m) {
         return m.group.AllToAllV(m.in.in(0, m.group.size()),
                                  m.out.out(0, m.group.size() + 1), m.Counts(1),
                                  m.Counts(1, 1));
       },
       "want", "out_counts"},
  };
}

std::vector<WrongCall> WrongRanksAndReductions() {
  return {
      {"Reduce to a root outside the group",
       [](Material& m) {
         return m.group.Reduce(m.in.in(0, 1), m.out.out(0, 0), Reduction::Sum(),
                               Rank{m.group.size()});
       },
       "root", "want"},
      {"Broadcast from a root below 0",
       [](Material& m) {
         return m.group.Broadcast(m.in.in(0, 0), m.out.out(0, 1), Rank{-1});
       },
       "root", "-1"},
      {"Send to a rank outside the group",
       [](Material& m) {
         return m.group.Send(m.in.in(0, 1), Rank{m.group.size()});
       },
       "peer", "want"},
      {"Send to itself",
       [](Material& m) { return m.group.Send(m.in.in(0, 1), m.group.rank()); },
       "peer", "itself"},
      {"Recv from a rank below 0",
       [](Material& m) { return m.group.Recv(m.out.out(0, 1), Rank{-1}); },
       "peer", "-1"},
      {"the average of integers",
       [](Material& m) {
         const Elements in(DataType::kI32, 4);
         Elements out(DataType::kI32, 4);
         return m.group.AllReduce(in.in(), out.out(), Reduction::Average());
       },
       "floating", "i32"},
      {"a sum scaled by no number",
       [](Material& m) {
         return m.group.AllReduce(
             m.in.in(), m.out.out(),
             Reduction::ScaledSum(std::numeric_limits<double>::quiet_NaN()));
       },
       "finite", "nan"},
  };
}

// Only rank 0 makes the wrong calls: had one been sent, the rest would not fit.
void ExpectRefused(const std::vector<WrongCall>& wrong_calls,
                   Collective& world) {
  if (world.rank() != Rank{0}) return;
  Material material = {.group = world};
  for (const WrongCall& wrong : wrong_calls) {
    SCOPED_TRACE(wrong.name);
    const absl::StatusOr<Work> work = wrong.call(material);
    EXPECT_THAT(work, StatusIs(absl::StatusCode::kInvalidArgument, wrong.got));
    EXPECT_THAT(work,
                StatusIs(absl::StatusCode::kInvalidArgument, wrong.wanted));
  }
}

TEST_P(CollectiveConformance, AWrongCallIsRefusedAndTheGroupStaysUsable) {
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    ExpectRefused(WrongBuffers(), world);
    ExpectRefused(WrongCounts(), world);
    ExpectRefused(WrongRanksAndReductions(), world);
    EXPECT_THAT(world.Health(), IsOk());
    return Finish(world, world.Barrier());
  });
  EXPECT_THAT(results, Each(IsOk()));
}

TEST_P(CollectiveConformance, AWrongColorIsRefused) {
  if (!Promises().split) GTEST_SKIP() << "split is not promised";
  const auto results = OnEveryRank([&](Collective& world) -> absl::Status {
    EXPECT_THAT(world.Split(-2, 0, "part", GuardDeadline(world.runtime())),
                StatusIs(absl::StatusCode::kInvalidArgument, "-2"));
    return Finish(world, world.Barrier());
  });
  EXPECT_THAT(results, Each(IsOk()));
}

// One promise less than the plugin makes, so that there is always one missing.
TEST_P(CollectiveConformance, WhatIsNotPromisedIsUnimplemented) {
  const Capabilities promises = Promises();
  const Elements in(DataType::kF32, 4);
  Elements out(DataType::kF32, 4);
  const Operation sum = {.kind = OperationKind::kAllReduce,
                         .data_type = DataType::kF32,
                         .reduction = Reduction::Sum(),
                         .in = in.in(),
                         .out = out.out()};
  const auto check = [&](const Capabilities& capabilities) {
    return CheckOperation(sum, Rank{0}, size(), capabilities);
  };
  EXPECT_THAT(check(promises), IsOk());

  Capabilities fewer = promises;
  fewer.operations &=
      ~(uint64_t{1} << static_cast<uint32_t>(OperationKind::kAllReduce));
  EXPECT_THAT(check(fewer),
              StatusIs(absl::StatusCode::kUnimplemented, "AllReduce"));
  fewer = promises;
  fewer.data_types &= ~(uint64_t{1} << static_cast<uint32_t>(DataType::kF32));
  EXPECT_THAT(check(fewer), StatusIs(absl::StatusCode::kUnimplemented, "f32"));
  fewer = promises;
  fewer.reductions &=
      ~(uint64_t{1} << static_cast<uint32_t>(ReductionKind::kSum));
  EXPECT_THAT(check(fewer),
              StatusIs(absl::StatusCode::kUnimplemented, "reduction"));
}

}  // namespace
}  // namespace muonshard::testing
