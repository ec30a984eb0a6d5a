// Makes sure, before anything depends on it, that all ranks were given the
// same facts.
//
// Errors     The same error on every rank: the first rank's own error, or the
//            first line on which a rank differs from rank 0, both shown.

#ifndef OPTIMIZER_AGREEMENT_H_
#define OPTIMIZER_AGREEMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/collective.h"

namespace muonshard {

// Compares `lines` over the ranks of `world`. `local` is what this rank has
// found so far; an error of one rank becomes the error of all. A collective
// call: one all-reduce of five integers when all agree.
absl::Status AgreeOnLines(Collective& world, const absl::Status& local,
                          const std::vector<std::string>& lines,
                          absl::Time deadline);

}  // namespace muonshard

#endif  // OPTIMIZER_AGREEMENT_H_
