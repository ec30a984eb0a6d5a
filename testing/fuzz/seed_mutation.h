// Small changes to the seeds of a fuzz target, the same for a seed of the
// generator on every platform.
//
// What a fuzzer does without seeing which code its input reached: bits flipped,
// bytes and lengths replaced by those at which code tends to break, runs cut
// out, doubled, or taken from another seed.

#ifndef TESTING_FUZZ_SEED_MUTATION_H_
#define TESTING_FUZZ_SEED_MUTATION_H_

#include <cstddef>
#include <string>
#include <vector>

#include "testing/seeded_random.h"

namespace muonshard::testing {

// One of `seeds` (which are not empty), changed in one to eight places, of at
// most `bytes_max` bytes.
std::string MutateOneOf(const std::vector<std::string>& seeds, size_t bytes_max,
                        SeededRandom& random);

}  // namespace muonshard::testing

#endif  // TESTING_FUZZ_SEED_MUTATION_H_
