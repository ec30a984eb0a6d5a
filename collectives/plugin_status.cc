#include "collectives/plugin_status.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

absl::StatusCode StatusCodeOf(muonshard_code code) {
  switch (code) {
    case MUONSHARD_OK:
      return absl::StatusCode::kOk;
    case MUONSHARD_E_ARGUMENT:
      return absl::StatusCode::kInvalidArgument;
    case MUONSHARD_E_STATE:
    case MUONSHARD_E_MISMATCH:
    case MUONSHARD_E_VERSION:
    case MUONSHARD_E_DEADLOCK:
      return absl::StatusCode::kFailedPrecondition;
    case MUONSHARD_E_UNSUPPORTED:
      return absl::StatusCode::kUnimplemented;
    case MUONSHARD_E_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    case MUONSHARD_E_PEER:
      return absl::StatusCode::kUnavailable;
    case MUONSHARD_E_TIMEOUT:
      return absl::StatusCode::kDeadlineExceeded;
    case MUONSHARD_E_ABORTED:
      return absl::StatusCode::kAborted;
    case MUONSHARD_E_CORRUPT:
      return absl::StatusCode::kDataLoss;
    default:
      return absl::StatusCode::kInternal;
  }
}

bool IsKnownError(muonshard_code code) {
  return code >= MUONSHARD_E_ARGUMENT && code <= MUONSHARD_E_DEADLOCK;
}

// In place of the middle of a text that is too long.
constexpr absl::string_view kCut = "...";

// Whether a character of UTF-8 begins with this byte.
bool BeginsCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

// Where the character that has byte `at` of `text` begins.
size_t CharacterAt(absl::string_view text, size_t at) {
  while (at > 0 && !BeginsCharacter(text[at])) --at;
  return at;
}

}  // namespace

absl::Status StatusFromPlugin(muonshard_code code,
                              const muonshard_status& status,
                              absl::string_view what, bool in_operation) {
  if (code == MUONSHARD_OK) return absl::OkStatus();
  std::string message(what);
  if (in_operation)
    absl::StrAppend(&message, " (operation ", status.sequence, ")");
  const absl::string_view text(status.text,
                               strnlen(status.text, sizeof(status.text)));
  absl::StrAppend(&message, ": ",
                  text.empty() ? "the plugin gave no reason" : text);
  if (status.rank >= 0) {
    absl::StrAppend(&message, " [rank ", status.rank, "]");
  }
  if (!IsKnownError(code)) {
    absl::StrAppend(&message, " [plugin code ", code, "]");
  }
  if (status.vendor_code != 0) {
    absl::StrAppend(&message, " [vendor code ", status.vendor_code, "]");
  }
  return absl::Status(StatusCodeOf(code), message);
}

muonshard_code PluginCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return MUONSHARD_OK;
    case absl::StatusCode::kInvalidArgument:
      return MUONSHARD_E_ARGUMENT;
    case absl::StatusCode::kFailedPrecondition:
      return MUONSHARD_E_STATE;
    case absl::StatusCode::kUnimplemented:
      return MUONSHARD_E_UNSUPPORTED;
    case absl::StatusCode::kResourceExhausted:
      return MUONSHARD_E_MEMORY;
    case absl::StatusCode::kUnavailable:
      return MUONSHARD_E_PEER;
    case absl::StatusCode::kDeadlineExceeded:
      return MUONSHARD_E_TIMEOUT;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return MUONSHARD_E_ABORTED;
    case absl::StatusCode::kDataLoss:
      return MUONSHARD_E_CORRUPT;
    default:
      return MUONSHARD_E_INTERNAL;
  }
}

muonshard_status StatusForPlugin(muonshard_code code, absl::string_view text,
                                 int32_t rank) {
  muonshard_status status = EmptyPluginStatus();
  status.code = code;
  status.rank = rank;
  constexpr size_t kRoom = sizeof(status.text) - 1;
  if (text.size() <= kRoom) {
    *std::copy_n(text.data(), text.size(), status.text) = '\0';
    return status;
  }
  // An error that went through several groups has its cause at the end.
  const absl::string_view head = text.substr(0, CharacterAt(text, kRoom / 4));
  const size_t kept = kRoom - head.size() - kCut.size();
  size_t at = text.size() - kept;
  while (at < text.size() && !BeginsCharacter(text[at])) ++at;
  const std::string cut = absl::StrCat(head, kCut, text.substr(at));
  *std::copy_n(cut.data(), cut.size(), status.text) = '\0';
  return status;
}

muonshard_code GiveStatus(const absl::Status& error, muonshard_status* status) {
  const muonshard_code code = PluginCode(error.code());
  if (status != nullptr) *status = StatusForPlugin(code, error.message(), -1);
  return code;
}

}  // namespace muonshard
