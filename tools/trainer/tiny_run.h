// Runs of the trainer so small that each takes a fraction of a second.

#ifndef TOOLS_TRAINER_TINY_RUN_H_
#define TOOLS_TRAINER_TINY_RUN_H_

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tools/trainer/train_options.h"
#include "tools/trainer/train_result.h"
#include "tools/trainer/trainer.h"

namespace muonshard::testing {

// A file of 4 KiB that repeat, so that a tiny model learns in a few steps.
inline std::string TinyText() {
  const std::string path = absl::StrCat(::testing::TempDir(), "/tiny.txt");
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < 256; ++i) file << "abcdefghijklmno\n";
  return path;
}

inline absl::StatusOr<TrainResult> Quiet(const TrainOptions& options) {
  return Train(options, [](const std::string&) {});
}

// The run held its parameters against the unsharded optimizer's, and they have
// the same bits.
inline void ExpectVerified(const absl::StatusOr<TrainResult>& result) {
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->verify_max_abs_difference.has_value());
  EXPECT_EQ(*result->verify_max_abs_difference, 0);
  EXPECT_EQ(result->verify_different_count, 0);
}

// Every rank sent what the plan says, in each of `steps` steps.
inline void ExpectPlannedBytes(const TrainResult& result, int64_t steps) {
  for (const RankBytes& bytes : result.ranks) {
    EXPECT_EQ(bytes.bucket_bytes_sent,
              static_cast<uint64_t>(steps * bytes.bucket_bytes_planned));
  }
}

}  // namespace muonshard::testing

#endif  // TOOLS_TRAINER_TINY_RUN_H_
