#include "testing/lossy_world.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "collectives/data_type.h"
#include "collectives/operation.h"

namespace muonshard::testing {

LossyWorld::LossyWorld(Collective& inner, std::string label, Collective* broken)
    : Collective(inner.runtime(), inner.rank(), inner.size(), inner.name(),
                 inner.capabilities()),
      inner_(inner),
      label_(std::move(label)),
      broken_(broken) {}

absl::StatusOr<std::unique_ptr<Collective>> LossyWorld::Split(
    int32_t color, int32_t key, absl::string_view name, absl::Time deadline) {
  absl::StatusOr<std::unique_ptr<Collective>> child =
      inner_.Split(color, key, name, deadline);
  if (!child.ok() || *child == nullptr) return child;
  auto lossy = std::make_unique<LossyWorld>(**child, label_, broken_);
  lossy->owned_ = *std::move(child);
  return lossy;
}

absl::StatusOr<LoweredCall> LossyWorld::Lower(Operation operation) {
  if (operation.options.label != label_) {
    return LowerWith(inner_, std::move(operation));
  }
  std::shared_ptr<std::vector<std::byte>> lost;
  if (broken_ != nullptr) {
    lost = std::make_shared<std::vector<std::byte>>(
        static_cast<size_t>(operation.out.count) *
        ByteWidth(operation.out.type));
    operation.out.data = lost->data();
  }
  absl::StatusOr<LoweredCall> call = LowerWith(inner_, std::move(operation));
  if (!call.ok()) return call;
  // As many levels on every rank.
  call->levels.emplace_back();
  if (broken_ == nullptr) return call;
  call->scratch.push_back(std::move(lost));
  absl::StatusOr<LoweredCall> failing =
      LowerWith(*broken_, {.kind = OperationKind::kBarrier});
  if (!failing.ok()) return failing;
  call->levels.back() = std::move(failing->levels.front());
  return call;
}

}  // namespace muonshard::testing
