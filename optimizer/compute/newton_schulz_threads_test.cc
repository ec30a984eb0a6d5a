#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "collectives/data_type.h"
#include "collectives/runtime/rank_tasks.h"
#include "collectives/runtime/threads_runtime.h"
#include "optimizer/compute/newton_schulz.h"
#include "optimizer/muon_options.h"

namespace muonshard {
namespace {

std::vector<float> Orthogonalize(int64_t rows, int64_t cols,
                                 const MuonOptions& options) {
  std::vector<float> x(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(std::sin(static_cast<double>(i * i)));
  }
  std::vector<float> workspace(
      static_cast<size_t>(NewtonSchulzWorkspaceCount(rows, cols, options)));
  NewtonSchulz(x, rows, cols, options, workspace, x);
  return x;
}

std::vector<std::vector<float>> OrthogonalizeAll() {
  std::vector<std::vector<float>> results;
  for (const int64_t rows : {1, 30, 64, 128}) {
    for (const int64_t cols : {64, 128, 200}) {
      results.push_back(Orthogonalize(rows, cols, {}));
    }
  }
  MuonOptions gram;
  gram.iteration = NewtonSchulzIteration::kGram;
  for (const DataType dtype : {DataType::kF64, DataType::kBF16}) {
    gram.newton_schulz_dtype = dtype;
    results.push_back(Orthogonalize(64, 128, gram));
  }
  return results;
}

TEST(NewtonSchulzThreadsTest, RanksThatComputeAtOnceGetTheBitsOfOneAlone) {
  const std::vector<std::vector<float>> alone = OrthogonalizeAll();
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const std::vector<absl::Status> results = RunRanks(*runtime, 6, [&](Rank) {
    for (int repetition = 0; repetition < 3; ++repetition) {
      if (OrthogonalizeAll() != alone) {
        return absl::InternalError("want the bits of one rank alone");
      }
    }
    return absl::OkStatus();
  });
  ASSERT_EQ(results.size(), 6u);
  for (const absl::Status& result : results) EXPECT_TRUE(result.ok()) << result;
}

}  // namespace
}  // namespace muonshard
