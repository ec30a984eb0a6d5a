#include "collectives/plugin_work.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/abi_time.h"
#include "collectives/plugin_status.h"

namespace muonshard {
namespace {

// What a plugin holds until a work ends.
struct Completion {
  std::shared_ptr<EventSource> source;
  std::string what;
};

void Complete(void* argument, const muonshard_status* status) {
  const std::unique_ptr<Completion> completion(
      static_cast<Completion*>(argument));
  completion->source->Complete(StatusFromPlugin(
      status->code, *status, completion->what, /*in_operation=*/true));
}

}  // namespace

PluginWork::PluginWork(std::shared_ptr<const PluginInstance> plugin,
                       muonshard_work work, std::string what)
    : plugin_(std::move(plugin)),
      work_(work),
      what_(std::move(what)),
      mutex_(plugin_->runtime().NewMutex()) {}

PluginWork::~PluginWork() { plugin_->table().work_free(work_); }

absl::Status PluginWork::Wait(absl::Time deadline) {
  muonshard_status status = EmptyPluginStatus();
  const muonshard_code code =
      plugin_->table().work_wait(work_, ToAbiNanoseconds(deadline), &status);
  if (code == MUONSHARD_WAIT_EXPIRED) {
    return absl::DeadlineExceededError(
        absl::StrCat(what_, ": this wait expired, the operation goes on"));
  }
  return StatusFromPlugin(code, status, what_, /*in_operation=*/true);
}

bool PluginWork::done() const {
  muonshard_status status = EmptyPluginStatus();
  return plugin_->table().work_test(work_, &status) != MUONSHARD_IN_PROGRESS;
}

Event PluginWork::event() {
  std::shared_ptr<EventSource> source;
  std::unique_ptr<Completion> completion;
  {
    const MutexLock lock(*mutex_);
    if (source_ == nullptr) {
      source_ = std::make_shared<EventSource>(plugin_->runtime());
      completion.reset(new Completion{source_, what_});
    }
    source = source_;
  }
  muonshard_status status = EmptyPluginStatus();
  if (completion == nullptr) {
    // A work that has ended has an event that has happened, even while the
    // plugin's callback is on its way.
    const muonshard_code code = plugin_->table().work_test(work_, &status);
    if (code != MUONSHARD_IN_PROGRESS) {
      source->Complete(
          StatusFromPlugin(code, status, what_, /*in_operation=*/true));
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
