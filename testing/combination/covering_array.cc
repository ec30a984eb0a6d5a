#include "testing/combination/covering_array.h"

#include <cstddef>

namespace muonshard::testing {
namespace {

// Which triples of values are covered, for all choices of three factors.
class Triples {
 public:
  explicit Triples(const std::vector<int32_t>& value_counts)
      : counts_(value_counts) {
    size_t total = 0;
    for (size_t a = 0; a < counts_.size(); ++a) {
      for (size_t b = a + 1; b < counts_.size(); ++b) {
        for (size_t c = b + 1; c < counts_.size(); ++c) {
          choices_.push_back({a, b, c, total});
          total += Count(a) * Count(b) * Count(c);
        }
      }
    }
    covered_.resize(total, false);
    left_ = total;
  }

  size_t left() const { return left_; }

  // How many triples of `row` are not covered.
  size_t Gain(const Row& row) const {
    size_t gain = 0;
    for (const Choice& choice : choices_) {
      if (!covered_[IndexOf(choice, row)]) ++gain;
    }
    return gain;
  }

  void Cover(const Row& row) {
    left_ -= Gain(row);
    for (const Choice& choice : choices_) {
      covered_[IndexOf(choice, row)] = true;
    }
  }

 private:
  struct Choice {
    size_t a, b, c;
    size_t offset;
  };

  size_t Count(size_t factor) const {
    return static_cast<size_t>(counts_[factor]);
  }

  size_t IndexOf(const Choice& choice, const Row& row) const {
    const auto value = [&row](size_t factor) {
      return static_cast<size_t>(row[factor]);
    };
    return choice.offset +
           (value(choice.a) * Count(choice.b) + value(choice.b)) *
               Count(choice.c) +
           value(choice.c);
  }

  const std::vector<int32_t> counts_;
  std::vector<Choice> choices_;
  std::vector<bool> covered_;
  size_t left_ = 0;
};

}  // namespace

std::vector<Row> FullProduct(const std::vector<int32_t>& value_counts) {
  std::vector<Row> rows = {{}};
  for (const int32_t count : value_counts) {
    std::vector<Row> longer;
    for (const Row& row : rows) {
      for (int32_t value = 0; value < count; ++value) {
        longer.push_back(row);
        longer.back().push_back(value);
      }
    }
    rows = std::move(longer);
  }
  return rows;
}

std::vector<Row> CoverTriples(const std::vector<int32_t>& value_counts) {
  const std::vector<Row> all = FullProduct(value_counts);
  Triples triples(value_counts);
  std::vector<Row> rows;
  while (triples.left() > 0) {
    const Row* best = nullptr;
    size_t best_gain = 0;
    for (const Row& row : all) {
      const size_t gain = triples.Gain(row);
      if (gain > best_gain) {
        best = &row;
        best_gain = gain;
      }
    }
    triples.Cover(*best);
    rows.push_back(*best);
  }
  return rows;
}

}  // namespace muonshard::testing
