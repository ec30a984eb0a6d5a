#include "collectives/plugin_work.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/abi_time.h"
#include "collectives/plugin_status.h"
#include "collectives/runtime/runtime.h"

namespace muonshard {
namespace {

// What a plugin holds until a work ends.
struct Completion {
  std::shared_ptr<EventSource> source;
  CallName name;
};

absl::Status StatusOf(muonshard_code code, const muonshard_status& status,
                      const CallName& name) {
  if (code == MUONSHARD_OK) return absl::OkStatus();
  return StatusFromPlugin(code, status, ToString(name), /*in_operation=*/true);
}

void Complete(void* argument, const muonshard_status* status) {
  const std::unique_ptr<Completion> completion(
      static_cast<Completion*>(argument));
  completion->source->Complete(
      StatusOf(status->code, *status, completion->name));
}

}  // namespace

std::string ToString(const CallName& name) {
  std::string text =
      absl::StrCat(*name.group, ": ", OperationKindName(name.kind));
  if (!name.label.empty()) absl::StrAppend(&text, " \"", name.label, "\"");
  return text;
}

PluginWork::PluginWork(std::shared_ptr<const PluginInstance> plugin,
                       muonshard_work work, CallName name)
    : plugin_(std::move(plugin)), work_(work), name_(std::move(name)) {}

PluginWork::~PluginWork() { plugin_->table().work_free(work_); }

absl::Status PluginWork::Wait(absl::Time deadline) {
  muonshard_status status = EmptyPluginStatus();
  const muonshard_code code =
      plugin_->table().work_wait(work_, ToAbiNanoseconds(deadline), &status);
  if (code == MUONSHARD_WAIT_EXPIRED) {
    return absl::DeadlineExceededError(absl::StrCat(
        ToString(name_), ": this wait expired, the operation goes on"));
  }
  return StatusOf(code, status, name_);
}

bool PluginWork::done() const {
  muonshard_status status = EmptyPluginStatus();
  return plugin_->table().work_test(work_, &status) != MUONSHARD_IN_PROGRESS;
}

Event PluginWork::event() {
  std::shared_ptr<EventSource> source;
  std::unique_ptr<Completion> completion;
  {
    const MutexLock lock(plugin_->event_mutex());
    if (source_ == nullptr) {
      source_ = std::make_shared<EventSource>(plugin_->runtime());
      completion.reset(new Completion{source_, name_});
    }
    source = source_;
  }
  muonshard_status status = EmptyPluginStatus();
  if (completion == nullptr) {
    // A work that has ended has an event that has happened, even while the
    // plugin's callback is on its way.
    const muonshard_code code = plugin_->table().work_test(work_, &status);
    if (code != MUONSHARD_IN_PROGRESS) {
      source->Complete(StatusOf(code, status, name_));
    }
    return source->event();
  }
  // From here on the completion is the plugin's, which hands it to Complete
  // when the work ends, maybe before work_then returns.
  Completion* const given = completion.release();
  const muonshard_code code =
      plugin_->table().work_then(work_, Complete, given, &status);
  if (code != MUONSHARD_OK) {
    status.code = code;
    Complete(given, &status);
  }
  return source->event();
}

}  // namespace muonshard
