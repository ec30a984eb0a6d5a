// The store that a launcher keeps for the ranks of one job.

#ifndef TOOLS_LAUNCHER_MEETING_STORE_H_
#define TOOLS_LAUNCHER_MEETING_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/open_store.h"
#include "collectives/runtime/runtime.h"
#include "collectives/tcp_store.h"

namespace muonshard {

class MeetingStore {
 public:
  // Serves at `wanted`, or makes a folder in it that no other job uses.
  static absl::StatusOr<std::unique_ptr<MeetingStore>> Open(
      const StoreAddress& wanted);
  MeetingStore(const MeetingStore&) = delete;
  MeetingStore& operator=(const MeetingStore&) = delete;
  // Removes the folder that was made.
  ~MeetingStore();

  const std::string& address() const { return address_; }
  // Empty for a folder.
  const std::string& secret() const { return secret_; }

 private:
  MeetingStore() = default;

  std::string folder_;
  std::string address_;
  std::string secret_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<TcpStoreServer> server_;
};

}  // namespace muonshard

#endif  // TOOLS_LAUNCHER_MEETING_STORE_H_
