#include "collectives/flat_collective.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/plugin_communicator.h"
#include "collectives/plugin_memory.h"

namespace muonshard {
namespace {

class FlatCollective final : public Collective {
 public:
  FlatCollective(std::shared_ptr<PluginCommunicator> communicator,
                 const Capabilities& capabilities)
      : Collective(communicator->runtime(), communicator->rank(),
                   communicator->size(), communicator->name(), capabilities),
        communicator_(std::move(communicator)) {}

  absl::StatusOr<std::unique_ptr<Collective>> Split(
      int32_t color, int32_t key, absl::string_view name,
      absl::Time deadline) override {
    if (color < -1) {
      return absl::InvalidArgumentError(
          absl::StrCat(communicator_->Describe(), ": Split \"", name,
                       "\": want a color of at least -1, got ", color));
    }
    if (!capabilities().split) {
      return absl::UnimplementedError(
          absl::StrCat(communicator_->Describe(), ": Split \"", name,
                       "\": the plugin does not promise to split groups"));
    }
    absl::StatusOr<std::shared_ptr<PluginCommunicator>> child =
        communicator_->Split(color, key, name, deadline);
    if (!child.ok()) return child.status();
    if (*child == nullptr) return nullptr;
    return NewFlatCollective(*std::move(child), capabilities());
  }

  void Abort(const absl::Status& reason) override {
    communicator_->Abort(reason);
  }

  absl::Status Health() const override { return communicator_->Health(); }

  absl::StatusOr<CollectiveCounters> Counters() const override {
    return communicator_->Counters();
  }

  absl::StatusOr<std::unique_ptr<CollectiveMemory>> NewMemory(
      int64_t bytes, absl::Time deadline) override {
    if (bytes < 0 || !capabilities().window) {
      return Collective::NewMemory(bytes, deadline);
    }
    return NewPluginMemory(communicator_, bytes, deadline);
  }

 private:
  absl::StatusOr<LoweredCall> Lower(Operation operation) override {
    LoweredCall call;
    call.levels.emplace_back().push_back({communicator_, std::move(operation)});
    return call;
  }

  absl::StatusOr<Work> PostAlone(Operation operation) override {
    return communicator_->Post(std::move(operation));
  }

  void Break(const absl::Status& error) override {
    communicator_->Break(error);
  }

  const std::shared_ptr<PluginCommunicator> communicator_;
};

}  // namespace

std::unique_ptr<Collective> NewFlatCollective(
    std::shared_ptr<PluginCommunicator> communicator,
    const Capabilities& capabilities) {
  return std::make_unique<FlatCollective>(std::move(communicator),
                                          capabilities);
}

}  // namespace muonshard
