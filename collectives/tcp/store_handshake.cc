#include "collectives/tcp/store_handshake.h"

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/tcp/store_proof.h"
#include "collectives/tcp/store_protocol.h"

namespace muonshard {
namespace {

absl::Status Ended(int error) {
  return absl::UnavailableError(error == 0 ? "it closed the connection"
                                           : std::strerror(error));
}

absl::Status SendAll(Runtime& runtime, const Descriptor& socket,
                     absl::string_view bytes, absl::Time deadline) {
  while (!bytes.empty()) {
    const Transfer sent = SendSome(socket, bytes);
    if (sent.error != 0) return Ended(sent.error);
    bytes.remove_prefix(sent.bytes);
    if (sent.would_block && !WaitToWrite(runtime, socket, deadline)) {
      return absl::UnavailableError("it takes nothing");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAll(Runtime& runtime, const Descriptor& socket,
                                    size_t size, absl::Time deadline) {
  std::string bytes(size, '\0');
  size_t got = 0;
  while (got < size) {
    const Transfer read = ReadSome(socket, bytes.data() + got, size - got);
    got += read.bytes;
    if (read.bytes > 0) continue;
    if (!read.would_block) return Ended(read.error);
    if (!WaitToRead(runtime, socket, deadline)) {
      return absl::UnavailableError("it does not answer");
    }
  }
  return bytes;
}

// What the server says to the client's proof.
absl::StatusOr<StoreVerdict> CheckVerdict(absl::string_view bytes,
                                          absl::string_view secret,
                                          absl::string_view said) {
  absl::StatusOr<StoreVerdict> verdict = ParseVerdict(bytes);
  if (!verdict.ok()) {
    return absl::FailedPreconditionError(verdict.status().message());
  }
  if (verdict->admission == StoreAdmission::kWrongSecret) {
    return absl::PermissionDeniedError("it has another secret");
  }
  const std::string proof = StoreProof(
      secret, StoreSide::kServer,
      absl::StrCat(said, EncodeVerdictTerms(verdict->admission,
                                            verdict->value_bytes_max)));
  if (!IsSameProof(verdict->proof, proof)) {
    return absl::PermissionDeniedError("it does not know the secret");
  }
  if (verdict->admission == StoreAdmission::kTooManyClients) {
    return absl::ResourceExhaustedError("it has all the clients it may have");
  }
  return verdict;
}

// Returns the largest value that the server takes.
absl::StatusOr<size_t> Shake(Runtime& runtime, const Descriptor& socket,
                             absl::string_view secret, absl::Time deadline) {
  const absl::StatusOr<std::string> nonce = NewStoreNonce();
  if (!nonce.ok()) return nonce.status();
  const std::string greeting = EncodeGreeting(StoreSide::kClient, *nonce);
  if (absl::Status s = SendAll(runtime, socket, greeting, deadline); !s.ok()) {
    return s;
  }
  const absl::StatusOr<std::string> answer =
      ReadAll(runtime, socket, kStoreGreetingBytes, deadline);
  if (!answer.ok()) return answer.status();
  const absl::StatusOr<StoreGreeting> parsed =
      ParseGreeting(StoreSide::kServer, *answer);
  if (!parsed.ok()) {
    return absl::FailedPreconditionError("it is no store");
  }
  if (parsed->version != kStoreProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("it speaks version ", parsed->version,
                     " of the protocol, want ", kStoreProtocolVersion));
  }
  const std::string proof =
      StoreProof(secret, StoreSide::kClient, absl::StrCat(greeting, *answer));
  if (absl::Status s = SendAll(runtime, socket, proof, deadline); !s.ok()) {
    return s;
  }
  const absl::StatusOr<std::string> said =
      ReadAll(runtime, socket, kStoreVerdictBytes, deadline);
  if (!said.ok()) return said.status();
  const absl::StatusOr<StoreVerdict> verdict =
      CheckVerdict(*said, secret, absl::StrCat(greeting, *answer, proof));
  if (!verdict.ok()) return verdict.status();
  return static_cast<size_t>(verdict->value_bytes_max);
}

}  // namespace

absl::StatusOr<StoreConnection> EnterTcpStore(Runtime& runtime,
                                              const std::string& host,
                                              uint16_t port,
                                              absl::string_view secret,
                                              absl::Time deadline) {
  absl::StatusOr<Descriptor> socket = ConnectTo(runtime, host, port, deadline);
  if (!socket.ok()) return socket.status();
  const absl::StatusOr<size_t> value_bytes_max =
      Shake(runtime, *socket, secret, deadline);
  if (!value_bytes_max.ok()) {
    return absl::Status(value_bytes_max.status().code(),
                        absl::StrCat("store at ", HostAndPort(host, port), ": ",
                                     value_bytes_max.status().message()));
  }
  return StoreConnection{.socket = *std::move(socket),
                         .value_bytes_max = *value_bytes_max};
}

}  // namespace muonshard
