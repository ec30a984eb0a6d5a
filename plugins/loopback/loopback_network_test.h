// What the tests of loopback on a network share.

#ifndef PLUGINS_LOOPBACK_LOOPBACK_NETWORK_TEST_H_
#define PLUGINS_LOOPBACK_LOOPBACK_NETWORK_TEST_H_

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/loopback/loopback_test.h"
#include "testing/status_matchers.h"

namespace muonshard::testing {

// Address space that nobody may read or write.
class Trap {
 public:
  explicit Trap(int64_t count)
      : bytes_(static_cast<size_t>(count) * sizeof(float)),
        data_(mmap(nullptr, bytes_, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~Trap() { munmap(data_, bytes_); }
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;

  ConstBuffer In(int64_t count) const { return {data_, count, DataType::kF32}; }
  MutableBuffer Out(int64_t count) const {
    return {data_, count, DataType::kF32};
  }

 private:
  const size_t bytes_;
  void* const data_;
};

inline int64_t SumOf(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

// An operation ends on a whole nanosecond, so each is late by at most one; this
// is ten times closer than the 1 % that a plan needs.
inline constexpr double kTolerance = 0.001;

// Runs one operation to its end and says how long it took, in nanoseconds.
inline absl::StatusOr<double> Time(RankContext& context,
                                   const absl::StatusOr<Work>& work,
                                   absl::Time begin) {
  if (absl::Status s = WaitFor(context, work); !s.ok()) return s;
  return absl::ToDoubleNanoseconds(context.runtime.Now() - begin);
}

inline absl::Status Expect(const absl::StatusOr<double>& time, double wanted) {
  if (!time.ok()) return time.status();
  EXPECT_NEAR(*time, wanted, wanted * kTolerance);
  return absl::OkStatus();
}

// Two hosts of two lanes.
inline constexpr char kFour[] =
    "hosts=2 lanes=2 alpha_ns=1500 lane_alpha_ns=600 lane_gbps=4000 "
    "nic_gbps=400";
// The numbers of this and of the other networks of these tests.
inline constexpr double kAlpha = 1500;
inline constexpr double kLaneAlpha = 600;
inline constexpr double kBeta = 8.0 / 400;
inline constexpr double kLaneBeta = 8.0 / 4000;
inline constexpr double kGamma = 8.0 / 8000;
inline constexpr double kWidth = 4;  // Bytes of an f32.
inline constexpr int64_t kCount = 1'000'000;

inline constexpr RuntimeCase kThreeSeeds[] = {{RuntimeCase::Kind::kSim, 1},
                                              {RuntimeCase::Kind::kSim, 2},
                                              {RuntimeCase::Kind::kSim, 3}};

class NetworkTest : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  static RankRun RunOn(
      const std::string& network, int32_t size,
      const std::function<absl::Status(RankContext&)>& program) {
    return RunOnRanks(
        {.runtime = GetParam(),
         .size = size,
         .plugin_options = network.empty() ? ""
                                           : absl::StrCat("{\"network\": \"",
                                                          network, "\"}")},
        program);
  }
};

}  // namespace muonshard::testing

#endif  // PLUGINS_LOOPBACK_LOOPBACK_NETWORK_TEST_H_
