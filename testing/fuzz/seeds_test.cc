// The test half of a fuzz target: runs it on the seeds that are kept for it and
// on changed copies of them, with any compiler and in seconds.
//
// An input that ends the process is left in the test's outputs, under the name
// `ended_the_process`; `tools/fuzz LABEL FILE` runs it again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "testing/fuzz/seed_mutation.h"
#include "testing/seeded_random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace muonshard::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

constexpr size_t kMutationBytesMax = 4096;

std::vector<std::string> ReadSeeds() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(MUONSHARD_FUZZ_SEEDS)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file),
                       std::istreambuf_iterator<char>());
  }
  return seeds;
}

std::string PathOfLastInput() {
  const char* const outputs = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  return (outputs != nullptr ? std::string(outputs) : ::testing::TempDir()) +
         "/ended_the_process";
}

void RunOn(const std::string& input) {
  const std::string path = PathOfLastInput();
  std::ofstream(path, std::ios::binary) << input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                         input.size());
  std::remove(path.c_str());
}

TEST(FuzzTarget, RunsOnItsSeeds) {
  const std::vector<std::string> seeds = ReadSeeds();
  ASSERT_THAT(seeds, Not(IsEmpty()));
  for (const std::string& seed : seeds) RunOn(seed);
}

TEST(FuzzTarget, RunsOnChangedSeeds) {
  const std::vector<std::string> seeds = ReadSeeds();
  ASSERT_THAT(seeds, Not(IsEmpty()));
  SeededRandom random(1);
  for (int i = 0; i < MUONSHARD_FUZZ_MUTATION_COUNT; ++i) {
    RunOn(MutateOneOf(seeds, kMutationBytesMax, random));
  }
}

}  // namespace
}  // namespace muonshard::testing
