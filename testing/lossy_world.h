// A world in which this rank alone never gets the result of one operation: it
// ends with an error behind its end, when the other ranks have theirs, and
// nothing is written to its output.

#ifndef TESTING_LOSSY_WORLD_H_
#define TESTING_LOSSY_WORLD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/collective.h"

namespace muonshard::testing {

class LossyWorld : public Collective {
 public:
  // The label of the operation, in `inner` or in a flat group split from it,
  // and a group of this rank alone that is broken: the error. Null: no result
  // is lost here. Ranks on some of which one is lost have all such a world.
  // `inner` and `broken` outlive it.
  LossyWorld(Collective& inner, std::string label, Collective* broken);

  absl::StatusOr<std::unique_ptr<Collective>> Split(
      int32_t color, int32_t key, absl::string_view name,
      absl::Time deadline) override;
  void Abort(const absl::Status& reason) override { inner_.Abort(reason); }
  absl::Status Health() const override { return inner_.Health(); }
  absl::StatusOr<CollectiveCounters> Counters() const override {
    return inner_.Counters();
  }

 private:
  absl::StatusOr<LoweredCall> Lower(Operation operation) override;

  // Of a group that was split.
  std::unique_ptr<Collective> owned_;
  Collective& inner_;
  const std::string label_;
  Collective* const broken_;
};

}  // namespace muonshard::testing

#endif  // TESTING_LOSSY_WORLD_H_
