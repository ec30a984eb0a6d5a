#include "collectives/open_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/runtime/threads_runtime.h"
#include "collectives/tcp_store.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

TEST(StoreAddress, IsAFolderOrAHostAndAPort) {
  EXPECT_EQ(*ParseStoreAddress("file:/a/b"), StoreAddress{.folder = "/a/b"});
  EXPECT_EQ(*ParseStoreAddress("file:a:1"), StoreAddress{.folder = "a:1"});
  EXPECT_EQ(*ParseStoreAddress("tcp:node-7.rack:29500"),
            (StoreAddress{.host = "node-7.rack", .port = 29500}));
  EXPECT_EQ(*ParseStoreAddress("tcp:10.0.0.1:1"),
            (StoreAddress{.host = "10.0.0.1", .port = 1}));
  EXPECT_EQ(*ParseStoreAddress("tcp:[::1]:65535"),
            (StoreAddress{.host = "::1", .port = 65535}));
  EXPECT_EQ(*ParseStoreAddress("tcp:[fe80::1%eth0]:80"),
            (StoreAddress{.host = "fe80::1%eth0", .port = 80}));
}

TEST(StoreAddress, ComesBackAsItsText) {
  for (const char* const text :
       {"file:/a/b", "tcp:node:29500", "tcp:127.0.0.1:7", "tcp:[::1]:65535"}) {
    EXPECT_EQ(ToString(*ParseStoreAddress(text)), text);
  }
}

TEST(StoreAddress, ThatLacksSomethingIsRefusedByName) {
  struct Case {
    const char* text;
    const char* lack;
  };
  for (const Case& bad : {
           Case{"", "neither"},
           Case{"udp:host:1", "neither"},
           Case{"/folder", "neither"},
           Case{"file:", "no folder"},
           Case{"tcp:", "no port"},
           Case{"tcp:host", "no port"},
           Case{"tcp:[::1]", "no port"},
           Case{"tcp:[::1]80", "no port"},
           Case{"tcp::80", "no host"},
           Case{"tcp:[]:80", "no host"},
           Case{"tcp:a host:80", "in place of a host"},
           Case{"tcp:a]b:80", "in place of a host"},
           Case{"tcp:a/b:80", "in place of a host"},
           Case{"tcp:fe80::1:80", "in brackets"},
           Case{"tcp:host:", "from 1 to 65535"},
           Case{"tcp:host:0", "from 1 to 65535"},
           Case{"tcp:host:65536", "from 1 to 65535"},
           Case{"tcp:host:99999999999", "from 1 to 65535"},
           Case{"tcp:host:-1", "from 1 to 65535"},
           Case{"tcp:host:+1", "from 1 to 65535"},
           Case{"tcp:host: 1", "from 1 to 65535"},
           Case{"tcp:host:1x", "from 1 to 65535"},
       }) {
    const absl::StatusOr<StoreAddress> parsed = ParseStoreAddress(bad.text);
    EXPECT_THAT(parsed, StatusIs(absl::StatusCode::kInvalidArgument, bad.lack));
    EXPECT_THAT(parsed, StatusIs(absl::StatusCode::kInvalidArgument,
                                 absl::StrCat("\"", bad.text, "\"")));
  }
}

TEST(OpenStore, OfAFolderNeedsNoSecret) {
  std::string folder = absl::StrCat(::testing::TempDir(), "/open.XXXXXX");
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const absl::StatusOr<StoreAddress> address =
      ParseStoreAddress(absl::StrCat("file:", folder));
  ASSERT_THAT(address, IsOk());
  const auto one = OpenStore(*runtime, *address, "", absl::InfinitePast());
  const auto other = OpenStore(*runtime, *address, "", absl::InfinitePast());
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(other, IsOk());
  ASSERT_THAT((*one)->Put("key", "value"), IsOk());
  EXPECT_EQ(*(*other)->Get("key", absl::InfinitePast()), "value");
}

TEST(OpenStore, OfAHostConnectsWithTheSecret) {
  const std::unique_ptr<Runtime> runtime = NewThreadsRuntime();
  const std::string secret = "a secret of this test";
  const auto server = TcpStoreServer::Listen(*runtime, {.secret = secret});
  ASSERT_THAT(server, IsOk());
  const absl::StatusOr<StoreAddress> address =
      ParseStoreAddress(absl::StrCat("tcp:localhost:", (*server)->port()));
  ASSERT_THAT(address, IsOk());
  const absl::Time deadline = runtime->Now() + absl::Seconds(60);
  const auto store = OpenStore(*runtime, *address, secret, deadline);
  ASSERT_THAT(store, IsOk());
  EXPECT_EQ(*(*store)->Add("count", 3), 3);
  EXPECT_THAT(OpenStore(*runtime, *address, "the secret of another", deadline),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(OpenStore(*runtime, *address, "", deadline),
              StatusIs(absl::StatusCode::kInvalidArgument, "secret"));
}

}  // namespace
}  // namespace muonshard
