#include "collectives/plugin_memory.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/abi_time.h"
#include "collectives/plugin_status.h"

namespace muonshard {
namespace {

class PluginMemory final : public CollectiveMemory {
 public:
  PluginMemory(std::shared_ptr<PluginCommunicator> communicator, void* data,
               int64_t bytes, muonshard_window window)
      : communicator_(std::move(communicator)), window_(window) {
    bytes_ = {static_cast<std::byte*>(data), static_cast<size_t>(bytes)};
  }

  // What a plugin says of it helps nobody: the memory is given back.
  ~PluginMemory() override {
    muonshard_status status = EmptyPluginStatus();
    (void)communicator_->plugin().table().memory_free(communicator_->handle(),
                                                      window_, &status);
  }

 private:
  const std::shared_ptr<PluginCommunicator> communicator_;
  const muonshard_window window_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CollectiveMemory>> NewPluginMemory(
    std::shared_ptr<PluginCommunicator> communicator, int64_t bytes,
    absl::Time deadline) {
  const muonshard_plugin_table& table = communicator->plugin().table();
  const std::string what =
      absl::StrCat(communicator->Describe(), ": memory of ", bytes, " bytes");
  if (table.memory_new == nullptr || table.memory_free == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        what, ": plugin \"", table.name, "\" promises windows and makes none"));
  }
  void* data = nullptr;
  muonshard_window window = nullptr;
  muonshard_status status = EmptyPluginStatus();
  const muonshard_code code =
      table.memory_new(communicator->handle(), static_cast<uint64_t>(bytes),
                       MUONSHARD_MEMORY_HOST, ToAbiNanoseconds(deadline), &data,
                       &window, &status);
  if (code != MUONSHARD_OK) {
    return StatusFromPlugin(code, status, what, /*in_operation=*/false);
  }
  return std::make_unique<PluginMemory>(std::move(communicator), data, bytes,
                                        window);
}

}  // namespace muonshard
