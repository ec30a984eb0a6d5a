// The bytes that a client and the server of a TCP store send each other.
//
//   client                                  server
//   greeting   its version and a nonce   ->
//                                        <- greeting
//   proof      of the secret             ->
//                                        <- verdict, with a proof of its own
//   requests   in frames                 ->
//                                        <- replies, in frames
//
// A frame is a length, which counts what follows it, a type, an id and a
// payload. Every request but kCancel and kGoodbye gets one reply, which bears
// its id; replies come in any order. Numbers are little-endian. The first 12
// bytes of a greeting, magic and version, stay as they are in all versions.
//
// Memory       Views point into what was parsed.
// Errors       kInvalidArgument says what breaks the protocol. Nothing that is
//              read is trusted: a length is compared with what is there, or
//              with a limit, before anything is done with it.

#ifndef COLLECTIVES_TCP_STORE_PROTOCOL_H_
#define COLLECTIVES_TCP_STORE_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muonshard {

inline constexpr uint32_t kStoreProtocolVersion = 1;
inline constexpr size_t kStoreNonceBytes = 16;
inline constexpr size_t kStoreProofBytes = 32;
inline constexpr size_t kStoreGreetingBytes = 8 + 4 + kStoreNonceBytes;
inline constexpr size_t kStoreVerdictBytes = 1 + 8 + kStoreProofBytes;
// Of the text of a refusal; the rest is cut off.
inline constexpr size_t kStoreTextBytesMax = 1024;
// Of a frame, beside a value: numbers, and a key or a text.
inline constexpr size_t kStoreFrameExtraMax = 2 * kStoreTextBytesMax;

enum class StoreSide : uint8_t { kClient, kServer };

struct StoreGreeting {
  uint32_t version = kStoreProtocolVersion;
  absl::string_view nonce;
};

std::string EncodeGreeting(StoreSide side, absl::string_view nonce);
// Of kStoreGreetingBytes bytes that `side` sent. Any version is good.
absl::StatusOr<StoreGreeting> ParseGreeting(StoreSide side,
                                            absl::string_view bytes);

enum class StoreAdmission : uint8_t {
  kWelcome = 0,
  kWrongSecret = 1,
  kTooManyClients = 2,
};

struct StoreVerdict {
  StoreAdmission admission = StoreAdmission::kWelcome;
  uint64_t value_bytes_max = 0;
  absl::string_view proof;
};

// `proof` is of kStoreProofBytes; it vouches for what EncodeVerdictTerms gives.
std::string EncodeVerdictTerms(StoreAdmission admission,
                               uint64_t value_bytes_max);
std::string EncodeVerdict(const StoreVerdict& verdict);
// Of kStoreVerdictBytes bytes.
absl::StatusOr<StoreVerdict> ParseVerdict(absl::string_view bytes);

enum class StoreRequestType : uint8_t {
  kPut = 1,
  kGet = 2,  // Answered when there is a value.
  kAdd = 3,
  kCancel = 4,  // The kGet of this id is to be answered now.
  kGoodbye = 5,
};

struct StoreRequest {
  StoreRequestType type = StoreRequestType::kGet;
  uint64_t id = 0;
  absl::string_view key;    // Of kPut, kGet and kAdd.
  absl::string_view value;  // Of kPut.
  int64_t delta = 0;        // Of kAdd.
};

enum class StoreReplyType : uint8_t {
  kDone = 1,
  kValue = 2,
  kSum = 3,
  kAbsent = 4,
  kRefused = 5,
};

struct StoreReply {
  StoreReplyType type = StoreReplyType::kDone;
  uint64_t id = 0;
  absl::string_view value;  // Of kValue.
  int64_t sum = 0;          // Of kSum.
  absl::Status refusal;     // Of kRefused.
};

// Whole frames, with their lengths.
std::string EncodeRequest(const StoreRequest& request);
std::string EncodeReply(const StoreReply& reply);

// Of a frame without its length.
absl::StatusOr<StoreRequest> ParseRequest(absl::string_view frame);
absl::StatusOr<StoreReply> ParseReply(absl::string_view frame);

// The next frame in `bytes`, with its length; nullopt if it is not whole yet.
// One longer than `frame_bytes_max` is refused by its length alone.
absl::StatusOr<std::optional<absl::string_view>> FirstFrame(
    absl::string_view bytes, size_t frame_bytes_max);
// What FirstFrame found, without its length.
absl::string_view FrameContent(absl::string_view whole_frame);

}  // namespace muonshard

#endif  // COLLECTIVES_TCP_STORE_PROTOCOL_H_
