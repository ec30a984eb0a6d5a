#include "collectives/open_store.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "collectives/tcp/socket.h"
#include "collectives/tcp_store.h"

namespace muonshard {
namespace {

absl::Status BadAddress(absl::string_view address, absl::string_view lack) {
  return absl::InvalidArgumentError(
      absl::StrCat("store address \"", address,
                   "\": want file:FOLDER or tcp:HOST:PORT, ", lack));
}

bool IsPort(absl::string_view text, uint16_t* port) {
  uint32_t number = 0;
  const bool is_digits =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return absl::ascii_isdigit(static_cast<unsigned char>(c));
      });
  if (!is_digits || !absl::SimpleAtoi(text, &number)) return false;
  if (number < 1 || number > 65535) return false;
  *port = static_cast<uint16_t>(number);
  return true;
}

bool HasOnlyHostCharacters(absl::string_view host) {
  return std::none_of(host.begin(), host.end(), [](char c) {
    return c == '[' || c == ']' || c == '/' ||
           !absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
}

// `rest` is what follows "tcp:".
absl::StatusOr<StoreAddress> ParseTcp(absl::string_view address,
                                      absl::string_view rest) {
  const bool in_brackets = absl::ConsumePrefix(&rest, "[");
  const size_t end = rest.find(in_brackets ? "]:" : ":");
  if (end == absl::string_view::npos) {
    return BadAddress(address, "got no port");
  }
  const absl::string_view host = rest.substr(0, end);
  const absl::string_view port = rest.substr(end + (in_brackets ? 2 : 1));
  StoreAddress parsed;
  if (host.empty()) return BadAddress(address, "got no host");
  if (!HasOnlyHostCharacters(host)) {
    return BadAddress(address,
                      absl::StrCat("got \"", host, "\" in place of a host"));
  }
  if (!in_brackets && absl::StrContains(port, ":")) {
    return BadAddress(address, "an IPv6 address in brackets");
  }
  if (!IsPort(port, &parsed.port)) {
    return BadAddress(
        address, absl::StrCat("a port from 1 to 65535, got \"", port, "\""));
  }
  parsed.host = std::string(host);
  return parsed;
}

}  // namespace

absl::StatusOr<StoreAddress> ParseStoreAddress(absl::string_view address) {
  absl::string_view rest = address;
  if (absl::ConsumePrefix(&rest, "tcp:")) return ParseTcp(address, rest);
  if (!absl::ConsumePrefix(&rest, "file:")) {
    return BadAddress(address, "got neither");
  }
  if (rest.empty()) return BadAddress(address, "got no folder");
  return StoreAddress{.folder = std::string(rest)};
}

std::string ToString(const StoreAddress& address) {
  if (address.host.empty()) return absl::StrCat("file:", address.folder);
  return absl::StrCat("tcp:", HostAndPort(address.host, address.port));
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(Runtime& runtime,
                                                 const StoreAddress& address,
                                                 absl::string_view secret,
                                                 absl::Time deadline) {
  if (address.host.empty()) return NewFileStore(runtime, address.folder);
  return ConnectTcpStore(runtime, address.host, address.port, secret, deadline);
}

}  // namespace muonshard
