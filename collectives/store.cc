#include "collectives/store.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

constexpr size_t kKeyBytesMax = 512;

class InProcessStore final : public Store {
 public:
  explicit InProcessStore(Runtime& runtime)
      : runtime_(runtime), mutex_(runtime.NewMutex()) {}

  absl::Status Put(absl::string_view key, absl::string_view value) override {
    if (absl::Status s = CheckStoreKey(key); !s.ok()) return s;
    const MutexLock lock(*mutex_);
    const auto entry =
        values_.insert_or_assign(std::string(key), std::string(value)).first;
    const auto awaited = awaited_.find(entry->first);
    if (awaited == awaited_.end()) return absl::OkStatus();
    awaited->second->NotifyAll();
    awaited_.erase(awaited);  // Whoever waits holds a share.
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Get(absl::string_view key,
                                  absl::Time deadline) override {
    if (absl::Status s = CheckStoreKey(key); !s.ok()) return s;
    const std::string wanted(key);
    const MutexLock lock(*mutex_);
    bool expired = false;
    while (true) {
      const auto found = values_.find(wanted);
      if (found != values_.end()) return found->second;
      if (expired) {
        return absl::DeadlineExceededError(
            absl::StrCat("key \"", key, "\" did not come into the store"));
      }
      std::shared_ptr<Condition>& awaited = awaited_[wanted];
      if (awaited == nullptr) awaited = runtime_.NewCondition();
      const std::shared_ptr<Condition> came = awaited;
      expired = !came->Wait(*mutex_, deadline);
    }
  }

  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) override {
    if (absl::Status s = CheckStoreKey(key); !s.ok()) return s;
    const MutexLock lock(*mutex_);
    return counters_[std::string(key)] += delta;
  }

 private:
  Runtime& runtime_;
  const std::unique_ptr<Mutex> mutex_;
  // Guarded by mutex_.
  // By the key that is waited for: if each new key woke whoever waits for any,
  // thousands of ranks that meet would wake each other millions of times.
  std::map<std::string, std::shared_ptr<Condition>> awaited_;
  std::map<std::string, std::string> values_;
  std::map<std::string, int64_t> counters_;
};

}  // namespace

absl::Status CheckStoreKey(absl::string_view key) {
  if (key.empty() || key.size() > kKeyBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "want a key of 1 to ", kKeyBytesMax, " bytes, got ", key.size()));
  }
  const auto bad = std::find_if(key.begin(), key.end(), [](char c) {
    return !absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
           absl::string_view("._-/:").find(c) == absl::string_view::npos;
  });
  if (bad != key.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("want letters, digits and \"._-/:\" in a key, got byte ",
                     static_cast<int>(static_cast<unsigned char>(*bad)), " at ",
                     bad - key.begin()));
  }
  return absl::OkStatus();
}

std::unique_ptr<Store> NewInProcessStore(Runtime& runtime) {
  return std::make_unique<InProcessStore>(runtime);
}

}  // namespace muonshard
