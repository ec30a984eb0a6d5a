// A store that works but for one call, which it refuses or, if that puts a
// value, loses; for tests of what ranks are told when a store fails.

#ifndef COLLECTIVES_TESTING_FAILING_STORE_H_
#define COLLECTIVES_TESTING_FAILING_STORE_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "collectives/store.h"

namespace muonshard::testing {

// One rank's way to `store`, which outlives it. Calls of one task at a time.
class FailingStore final : public Store {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // The call with this number, from 0, does nothing and is kUnavailable. With
  // `loses`, one that puts a value is OK all the same, and others work.
  FailingStore(Store& store, int64_t failing, bool loses)
      : store_(store), failing_(failing), loses_(loses) {}

  int64_t call_count() const { return call_count_; }

  absl::Status Put(absl::string_view key, absl::string_view value) override {
    if (loses_ && call_count_ == failing_) {
      ++call_count_;
      return absl::OkStatus();
    }
    absl::Status s = Call("Put", key);
    return s.ok() ? store_.Put(key, value) : s;
  }
  absl::StatusOr<std::string> Get(absl::string_view key,
                                  absl::Time deadline) override {
    absl::Status s = Call("Get", key);
    if (!s.ok()) return s;
    return store_.Get(key, deadline);
  }
  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) override {
    absl::Status s = Call("Add", key);
    if (!s.ok()) return s;
    return store_.Add(key, delta);
  }

 private:
  absl::Status Call(absl::string_view what, absl::string_view key) {
    if (call_count_++ != failing_ || loses_) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat(what, " of key \"", key, "\": connection reset"));
  }

  Store& store_;
  const int64_t failing_;
  const bool loses_;
  int64_t call_count_ = 0;
};

}  // namespace muonshard::testing

#endif  // COLLECTIVES_TESTING_FAILING_STORE_H_
