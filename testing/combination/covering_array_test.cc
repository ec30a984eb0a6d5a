#include "testing/combination/covering_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <set>
#include <tuple>
#include <vector>

#include "testing/combination/combination.h"

namespace muonshard::testing {
namespace {

using ::testing::ElementsAre;

using Triple = std::tuple<size_t, size_t, size_t, int32_t, int32_t, int32_t>;

std::set<Triple> TriplesOf(const std::vector<Row>& rows) {
  std::set<Triple> triples;
  for (const Row& row : rows) {
    for (size_t a = 0; a < row.size(); ++a) {
      for (size_t b = a + 1; b < row.size(); ++b) {
        for (size_t c = b + 1; c < row.size(); ++c) {
          triples.emplace(a, b, c, row[a], row[b], row[c]);
        }
      }
    }
  }
  return triples;
}

TEST(CoveringArrayTest, TheProductHasEveryRowOnceAndTheLastFactorFastest) {
  EXPECT_THAT(FullProduct({2, 1, 2}), ElementsAre(Row{0, 0, 0}, Row{0, 0, 1},
                                                  Row{1, 0, 0}, Row{1, 0, 1}));
  const std::vector<Row> rows = FullProduct({2, 3, 4});
  EXPECT_EQ(rows.size(), 24u);
  EXPECT_EQ(std::set<Row>(rows.begin(), rows.end()).size(), 24u);
}

TEST(CoveringArrayTest, EveryTripleOfValuesIsInSomeRow) {
  for (const std::vector<int32_t>& counts : {std::vector<int32_t>{2, 2, 2},
                                             {3, 1, 2, 2},
                                             {2, 2, 2, 2, 2, 2},
                                             {3, 4, 2, 3, 2},
                                             Combination::ValueCounts()}) {
    const std::vector<Row> rows = CoverTriples(counts);
    EXPECT_EQ(TriplesOf(rows), TriplesOf(FullProduct(counts)));
    EXPECT_EQ(rows, CoverTriples(counts));
  }
}

TEST(CoveringArrayTest, TriplesOfCombinationsTakeAFractionOfTheProduct) {
  const std::vector<int32_t> counts = Combination::ValueCounts();
  const size_t rows = CoverTriples(counts).size();
  const size_t product = FullProduct(counts).size();
  std::cout << "every triple of " << counts.size() << " factors: " << rows
            << " of " << product << " combinations" << std::endl;
  for (const Combination& combination : TriplesOfCombinations()) {
    std::cout << "  " << ToString(combination) << std::endl;
  }
  // The three factors with the most values need as many as their product.
  EXPECT_GE(rows, 4u * 3u * 3u);
  EXPECT_LT(rows, product / 16);
}

}  // namespace
}  // namespace muonshard::testing
