// A short program of every kind of operation, on ranks of which some go wrong.
//
// In this file
//   program  makes the group "world" (operation 0) and takes operations 1 to 9
//            on it and on the half of it that a rank is in (rank modulo 2), two
//            of them in one post. It gives each operation `kPatience`, and at
//            its first error aborts its groups with it, as a program does.

#ifndef PLUGINS_LOOPBACK_FAULT_RUN_TEST_H_
#define PLUGINS_LOOPBACK_FAULT_RUN_TEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "testing/rank_harness.h"

namespace muonshard::testing {

inline constexpr uint64_t kOperationCount = 10;
// Of the operations that have an input of their own: "a" to "c" reduce, "f"
// receives.
inline constexpr uint64_t kFirstPost = 1;
inline constexpr uint64_t kSplit = 2;
// The first of two operations of one post, on two groups.
inline constexpr uint64_t kPostOfTwo = 3;

struct FaultRunOptions {
  RuntimeCase runtime;
  int32_t size = 1;
  std::string faults;
  bool checks = false;
  // 0: all shares are handed out.
  int64_t small_bytes = 64 * 1024;
  absl::Duration patience = absl::Seconds(1);
};

struct FaultRun {
  // By rank; a run that the runtime gave up stands in place of each OK.
  std::vector<absl::Status> results;
  std::vector<absl::Duration> durations;
  // When all groups were freed; the error of Open or Report if there was one.
  std::string report;
};

FaultRun RunWithFaults(const FaultRunOptions& options);

}  // namespace muonshard::testing

#endif  // PLUGINS_LOOPBACK_FAULT_RUN_TEST_H_
