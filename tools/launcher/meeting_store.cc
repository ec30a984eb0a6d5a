#include "tools/launcher/meeting_store.h"

#include <stdlib.h>
#include <sys/random.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/runtime/threads_runtime.h"

namespace muonshard {
namespace {

absl::StatusOr<std::string> NewSecret() {
  char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    return absl::ErrnoToStatus(errno, "cannot get random bytes");
  }
  return absl::BytesToHexString(absl::string_view(bytes, sizeof bytes));
}

absl::StatusOr<std::string> NewFolder(const std::string& parent) {
  std::error_code ignored;  // The next call finds what is wrong.
  std::filesystem::create_directories(parent, ignored);
  std::string folder = absl::StrCat(
      std::filesystem::absolute(parent, ignored).string(), "/launch.XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::ErrnoToStatus(
        errno,
        absl::StrCat("--store: cannot make a folder in \"", parent, "\""));
  }
  return folder;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MeetingStore>> MeetingStore::Open(
    const StoreAddress& wanted) {
  std::unique_ptr<MeetingStore> store(new MeetingStore);
  StoreAddress address = wanted;
  if (wanted.host.empty()) {
    absl::StatusOr<std::string> folder = NewFolder(wanted.folder);
    if (!folder.ok()) return folder.status();
    store->folder_ = address.folder = *std::move(folder);
    store->address_ = ToString(address);
    return store;
  }
  absl::StatusOr<std::string> secret = NewSecret();
  if (!secret.ok()) return secret.status();
  store->secret_ = *std::move(secret);
  store->runtime_ = NewThreadsRuntime();
  absl::StatusOr<std::unique_ptr<TcpStoreServer>> server =
      TcpStoreServer::Listen(
          *store->runtime_,
          {.host = wanted.host, .port = wanted.port, .secret = store->secret_});
  if (!server.ok()) return server.status();
  store->server_ = *std::move(server);
  address.port = store->server_->port();
  store->address_ = ToString(address);
  return store;
}

MeetingStore::~MeetingStore() {
  if (folder_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace muonshard
