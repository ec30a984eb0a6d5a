// One call of a collective on every rank, with what each rank gives, gets and
// should get; and the runs of counts, types and reductions to try.

#ifndef TESTING_CONFORMANCE_EXCHANGE_H_
#define TESTING_CONFORMANCE_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/capabilities.h"
#include "collectives/collective.h"
#include "testing/conformance/elements.h"

namespace muonshard::testing {

struct Exchange {
  std::string name;  // For reports.
  // By rank. `out` holds what is there before the call, which is the input
  // where the call is in place.
  std::vector<Elements> in;
  std::vector<Elements> out;
  std::vector<Elements> want;
  std::function<absl::StatusOr<Work>(Collective&, const Elements& in,
                                     Elements& out)>
      call;
};

enum class Pace {
  kOneByOne,   // Each call is waited for before the next is posted.
  kAllAtOnce,  // All are posted before the first is waited for.
};

// This rank's part in the calls. Waits until `deadline`.
absl::Status MakeExchanges(std::span<Exchange> exchanges, Collective& group,
                           Pace pace, absl::Time deadline);

// How a buffer is cut into one segment per rank.
class Segments {
 public:
  explicit Segments(std::vector<int64_t> counts);

  const std::vector<int64_t>& counts() const { return counts_; }
  int64_t count(size_t rank) const { return counts_[rank]; }
  int64_t begin(size_t rank) const { return begins_[rank]; }
  int64_t total() const { return begins_.back(); }

 private:
  std::vector<int64_t> counts_;
  std::vector<int64_t> begins_;  // One more than counts; the last is the total.
};

// "[0, 3, 1]".
std::string ToString(const std::vector<int64_t>& counts);

// Equal, uneven, empty, one for all, and random segments.
std::vector<Segments> SegmentsToTry(size_t ranks, uint64_t seed);
// Uneven, and over 64 KiB.
Segments LargeSegments(size_t ranks, DataType type);

// A prime, and over 64 KiB.
int64_t LargeCount(DataType type);

std::vector<DataType> PromisedDataTypes(const Capabilities& promises);
// One type of each width, for runs that are long enough to be cut.
std::vector<DataType> OneTypeOfEachWidth(const Capabilities& promises);

// Averages and scaled sums are for floating types alone.
std::vector<Reduction> PromisedReductions(const Capabilities& promises,
                                          DataType type);
// Those that are exact on `Elements::SmallIntegers`, in any order.
std::vector<Reduction> ExactReductions(const Capabilities& promises,
                                       DataType type);
std::string ToString(const Reduction& reduction);

using MakeElements = Elements (*)(DataType type, int64_t count, uint64_t seed);

// Alike in type and count, one per rank, each of another seed.
std::vector<Elements> Contributions(MakeElements make, size_t ranks,
                                    DataType type, int64_t count,
                                    uint64_t seed);

}  // namespace muonshard::testing

#endif  // TESTING_CONFORMANCE_EXCHANGE_H_
