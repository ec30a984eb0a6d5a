#include "plugins/support/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plugins/support/mismatch.h"

namespace muonshard::plugins {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kSize = 4;
float g_in[64];
float g_out[64];
const uint64_t kOnes[kSize] = {1, 1, 1, 1};
const uint64_t kUneven[kSize] = {3, 0, 2, 1};

using Edit = std::function<void(muonshard_operation&)>;

// An operation that rank 1 of 4 may call, for each kind.
muonshard_operation Valid(uint32_t kind) {
  muonshard_operation o = {};
  o.header.size = MUONSHARD_END(muonshard_operation, label);
  o.kind = kind;
  o.data_type = MUONSHARD_F32;
  o.reduction = MUONSHARD_SUM;
  o.scale = 1;
  o.deadline_ns = INT64_MAX;
  o.label = "w";
  o.in = {g_in, 4};
  o.out = {g_out, 4};
  switch (kind) {
    case MUONSHARD_REDUCE:
    case MUONSHARD_SEND:
      o.out = {nullptr, 0};
      break;
    case MUONSHARD_BROADCAST:
    case MUONSHARD_RECV:
      o.in = {nullptr, 0};
      break;
    case MUONSHARD_REDUCE_SCATTER_V:
      o.in_counts = kUneven;
      o.in.count = 6;
      o.out = {nullptr, 0};
      break;
    case MUONSHARD_ALL_GATHER_V:
      o.out_counts = kUneven;
      o.out.count = 6;
      o.in = {nullptr, 0};
      break;
    case MUONSHARD_ALL_TO_ALL_V:
      o.in_counts = kOnes;
      o.out_counts = kOnes;
      break;
    case MUONSHARD_BARRIER:
      o.in = o.out = {nullptr, 0};
      break;
    default:
      break;
  }
  return o;
}

Outcome Make(const muonshard_operation& operation, Call* call) {
  return MakeCall(operation, 1, kSize, call);
}

Call MadeOf(uint32_t kind, const Edit& edit = nullptr) {
  muonshard_operation operation = Valid(kind);
  if (edit) edit(operation);
  Call call;
  const Outcome outcome = Make(operation, &call);
  EXPECT_TRUE(outcome.ok()) << outcome.text;
  return call;
}

TEST(CallTest, EveryKindIsTakenAsItIsMeant) {
  for (uint32_t kind = 0; kind < MUONSHARD_OPERATION_KINDS; ++kind) {
    const Call call = MadeOf(kind);
    EXPECT_EQ(call.kind, kind);
    EXPECT_EQ(call.label, "w");
  }
  const Call call = MadeOf(MUONSHARD_REDUCE_SCATTER_V);
  EXPECT_EQ(call.in_segments[2].first, 3u);
  EXPECT_EQ(call.in_segments[2].count, 2u);
}

// An edit that makes a valid call of a kind wrong, and how it is refused.
struct WrongCall {
  uint32_t kind;
  Edit edit;
  muonshard_code code;
  std::string text;
};

void ExpectRefused(const std::vector<WrongCall>& cases) {
  for (const WrongCall& wrong : cases) {
    muonshard_operation operation = Valid(wrong.kind);
    wrong.edit(operation);
    Call call;
    const Outcome outcome = Make(operation, &call);
    EXPECT_EQ(outcome.code, wrong.code) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(wrong.text));
  }
}

TEST(CallTest, WrongValuesAreRefusedWithTheReason) {
  using Op = muonshard_operation;
  ExpectRefused({
      {MUONSHARD_BARRIER, [](Op& o) { o.header.size = 8; }, MUONSHARD_E_VERSION,
       "8 bytes"},
      {MUONSHARD_BARRIER, [](Op& o) { o.label = nullptr; },
       MUONSHARD_E_ARGUMENT, "label"},
      {MUONSHARD_BARRIER, [](Op& o) { o.kind = 99; }, MUONSHARD_E_UNSUPPORTED,
       "kind: 99"},
      {MUONSHARD_SEND, [](Op& o) { o.data_type = 0; }, MUONSHARD_E_UNSUPPORTED,
       "data type: 0"},
      {MUONSHARD_SEND, [](Op& o) { o.memory_kind = MUONSHARD_MEMORY_CUDA; },
       MUONSHARD_E_UNSUPPORTED, "host memory"},
      {MUONSHARD_SEND, [](Op& o) { o.ready_count = 1; }, MUONSHARD_E_ARGUMENT,
       "ready is null"},
      {MUONSHARD_REDUCE, [](Op& o) { o.root = kSize; }, MUONSHARD_E_ARGUMENT,
       "root in [0, 4), got 4"},
      {MUONSHARD_SEND, [](Op& o) { o.peer = 1; }, MUONSHARD_E_ARGUMENT,
       "peer in [0, 4) other than itself, got 1"},
      {MUONSHARD_ALL_REDUCE, [](Op& o) { o.reduction = 0; },
       MUONSHARD_E_UNSUPPORTED, "reduction: 0"},
      {MUONSHARD_ALL_REDUCE,
       [](Op& o) {
         o.reduction = MUONSHARD_AVERAGE;
         o.data_type = MUONSHARD_I32;
       },
       MUONSHARD_E_ARGUMENT, "floating type, got i32"},
  });
}

TEST(CallTest, WrongBuffersAndCountsAreRefusedWithTheReason) {
  const uint64_t far[kSize] = {0, 1, 2, 99};
  using Op = muonshard_operation;
  ExpectRefused({
      {MUONSHARD_ALL_REDUCE, [](Op& o) { o.in.data = nullptr; },
       MUONSHARD_E_ARGUMENT, "in is null, want 4 elements"},
      {MUONSHARD_ALL_REDUCE, [](Op& o) { o.out.count = UINT64_MAX; },
       MUONSHARD_E_ARGUMENT, "out has 18446744073709551615 elements"},
      {MUONSHARD_ALL_REDUCE, [](Op& o) { o.out.count = 3; },
       MUONSHARD_E_ARGUMENT, "out has 3 elements, want 4"},
      {MUONSHARD_ALL_REDUCE, [](Op& o) { o.out.data = g_in + 1; },
       MUONSHARD_E_ARGUMENT, "overlap"},
      {MUONSHARD_BROADCAST,
       [](Op& o) {
         o.in = {g_in, 4};
       },
       MUONSHARD_E_ARGUMENT, "in has 4 elements, want 0"},
      {MUONSHARD_RECV,
       [](Op& o) {
         o.in = {g_in, 4};
       },
       MUONSHARD_E_ARGUMENT, "in has 4 elements, want 0"},
      {MUONSHARD_SEND,
       [](Op& o) {
         o.out = {g_out, 4};
       },
       MUONSHARD_E_ARGUMENT, "out has 4 elements, want 0"},
      {MUONSHARD_REDUCE_SCATTER_V, [](Op& o) { o.in_counts = nullptr; },
       MUONSHARD_E_ARGUMENT, "in_counts is null"},
      {MUONSHARD_REDUCE_SCATTER_V, [](Op& o) { o.in.count = 7; },
       MUONSHARD_E_ARGUMENT, "in has 7 elements, want 6"},
      {MUONSHARD_ALL_GATHER_V, [](Op& o) { o.out_counts = nullptr; },
       MUONSHARD_E_ARGUMENT, "out_counts is null"},
      {MUONSHARD_ALL_TO_ALL_V, [](Op& o) { o.in_counts = nullptr; },
       MUONSHARD_E_ARGUMENT, "in_counts is null"},
      {MUONSHARD_ALL_TO_ALL_V, [&far](Op& o) { o.out_displacements = far; },
       MUONSHARD_E_ARGUMENT, "segment 3 of out is 1 elements from 99"},
      {MUONSHARD_ALL_TO_ALL_V, [](Op& o) { o.out.data = g_in; },
       MUONSHARD_E_ARGUMENT, "overlap"},
      {MUONSHARD_BARRIER,
       [](Op& o) {
         o.in = {g_in, 1};
       },
       MUONSHARD_E_ARGUMENT, "has 1 elements, want 0"},
  });
}

TEST(CallTest, TheOwnSegmentMayLieInPlace) {
  const auto in_place = [](uint32_t kind) {
    return [kind](muonshard_operation& o) {
      if (kind == MUONSHARD_REDUCE_SCATTER_V) {
        o.in_counts = kOnes;
        o.in.count = 4;
        o.out = {g_in + 1, 1};
      } else {
        o.out_counts = kOnes;
        o.in = {g_out + 1, 1};
        o.out.count = 4;
      }
    };
  };
  for (const uint32_t kind :
       {MUONSHARD_REDUCE_SCATTER_V, MUONSHARD_ALL_GATHER_V}) {
    MadeOf(kind, in_place(kind));
  }
  MadeOf(MUONSHARD_ALL_REDUCE, [](auto& o) { o.out.data = g_in; });
}

// Each edit is of the call of rank 3, and says what must be named.
TEST(MismatchTest, EveryDifferenceNamesBothCalls) {
  struct Case {
    uint32_t kind;
    Edit edit;
    std::string named;
  };
  using Op = muonshard_operation;
  const uint64_t other[kSize] = {0, 0, 5, 1};
  const std::vector<Case> cases = {
      {MUONSHARD_ALL_REDUCE, [](Op& o) { o = Valid(MUONSHARD_BARRIER); },
       "rank 3 called Barrier label \"w\"; the kinds differ"},
      {MUONSHARD_ALL_REDUCE, [](Op& o) { o.data_type = MUONSHARD_BF16; },
       "rank 3 called AllReduce bf16 sum 4 label \"w\"; the data types"},
      {MUONSHARD_ALL_REDUCE, [](Op& o) { o.reduction = MUONSHARD_MAX; },
       "AllReduce f32 max 4 label \"w\"; the reductions differ"},
      {MUONSHARD_ALL_REDUCE, [](Op& o) { o.in.count = o.out.count = 2; },
       "AllReduce f32 sum 2 label \"w\"; the lengths differ"},
      {MUONSHARD_BROADCAST, [](Op& o) { o.root = 2; },
       "Broadcast f32 4 from root 2 label \"w\"; the roots differ"},
      {MUONSHARD_REDUCE, [](Op& o) { o.root = 2; },
       "Reduce f32 sum 4 to root 2 label \"w\"; the roots differ"},
      {MUONSHARD_REDUCE_SCATTER_V, [&other](Op& o) { o.in_counts = other; },
       "[0, 0, 5, 1] label \"w\"; the counts for rank 0 are 3 and 0"},
      {MUONSHARD_ALL_GATHER_V, [&other](Op& o) { o.out_counts = other; },
       "[0, 0, 5, 1] label \"w\"; the counts for rank 0 are 3 and 0"},
      {MUONSHARD_BARRIER, [](Op& o) { o.user_fingerprint = 0xabc; },
       "fingerprint 0000000000000abc label \"w\"; the fingerprints differ"},
  };
  for (const Case& different : cases) {
    const Call left = MadeOf(different.kind);
    const Call right = MadeOf(different.kind, different.edit);
    EXPECT_TRUE(CompareCalls({left, 0}, {left, 3}, 17, "world").ok());
    const Outcome outcome = CompareCalls({left, 0}, {right, 3}, 17, "world");
    EXPECT_EQ(outcome.code, MUONSHARD_E_MISMATCH);
    EXPECT_EQ(outcome.sequence, 17u);
    EXPECT_THAT(outcome.text,
                HasSubstr("operation 17 of group \"world\": rank 0 called " +
                          Describe(left)));
    EXPECT_THAT(outcome.text, HasSubstr(different.named));
  }
}

TEST(MismatchTest, ScalesAreComparedByTheirBits) {
  const auto scaled = [](double scale) {
    return MadeOf(MUONSHARD_ALL_REDUCE, [scale](muonshard_operation& o) {
      o.reduction = MUONSHARD_SCALED_SUM;
      o.scale = scale;
    });
  };
  const Call third = scaled(1.0 / 3);
  const Call nearly = scaled(1.0 / 3 + 0x1p-54);
  EXPECT_TRUE(CompareCalls({third, 0}, {third, 1}, 0, "g").ok());
  const Outcome outcome = CompareCalls({third, 0}, {nearly, 1}, 0, "g");
  EXPECT_THAT(outcome.text, HasSubstr("sum times 0.33333333333333331"));
  EXPECT_THAT(outcome.text, HasSubstr("sum times 0.33333333333333337"));
}

TEST(MismatchTest, WhatARankSendsInAnExchangeItsPeerExpects) {
  // Rank 1 expects 3 elements from rank 3, which sends it one.
  const uint64_t expected[kSize] = {0, 1, 0, 3};
  const Call left =
      MadeOf(MUONSHARD_ALL_TO_ALL_V,
             [&expected](muonshard_operation& o) { o.out_counts = expected; });
  const Call right = MadeOf(MUONSHARD_ALL_TO_ALL_V);
  for (const bool swapped : {false, true}) {
    const RankCall a{left, 1};
    const RankCall b{right, 3};
    const Outcome outcome =
        swapped ? CompareCalls(b, a, 0, "g") : CompareCalls(a, b, 0, "g");
    EXPECT_THAT(outcome.text,
                HasSubstr("rank 3 sends 1 to rank 1, which expects 3"));
  }
}

TEST(MismatchTest, AMessageAgreesWithOneOfItsLength) {
  const Call send = MadeOf(MUONSHARD_SEND);
  const Call recv = MadeOf(MUONSHARD_RECV);
  EXPECT_TRUE(CompareCalls({send, 0}, {recv, 1}, 0, "g").ok());
  const Call longer =
      MadeOf(MUONSHARD_RECV, [](muonshard_operation& o) { o.out.count = 5; });
  EXPECT_THAT(CompareCalls({send, 0}, {longer, 1}, 0, "g").text,
              HasSubstr("rank 0 called Send f32 4 label \"w\"; rank 1 called "
                        "Recv f32 5 label \"w\"; the lengths differ"));
}

TEST(CallTest, EveryTypeAndReductionHasAName) {
  std::string text;
  for (const uint32_t type :
       {MUONSHARD_F64, MUONSHARD_F16, MUONSHARD_I64, MUONSHARD_U8}) {
    text += Describe(MadeOf(MUONSHARD_ALL_REDUCE,
                            [type](muonshard_operation& o) {
                              o.data_type = type;
                              o.reduction = MUONSHARD_MIN;
                            })) +
            ", ";
  }
  EXPECT_EQ(
      text,
      "AllReduce f64 min 4 label \"w\", AllReduce f16 min 4 label \"w\", "
      "AllReduce i64 min 4 label \"w\", AllReduce u8 min 4 label \"w\", ");
  EXPECT_THAT(Describe(MadeOf(MUONSHARD_ALL_REDUCE,
                              [](muonshard_operation& o) {
                                o.reduction = MUONSHARD_AVERAGE;
                              })),
              HasSubstr("average"));
}

}  // namespace
}  // namespace muonshard::plugins
