// What a client says to a session of a TCP store, for tests of the server's end
// without a socket.

#ifndef COLLECTIVES_TESTING_STORE_CONVERSATION_H_
#define COLLECTIVES_TESTING_STORE_CONVERSATION_H_

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/tcp/store_proof.h"
#include "collectives/tcp/store_protocol.h"
#include "collectives/tcp/store_session.h"

namespace muonshard::testing {

// What the session has to say now, which counts as sent.
inline std::string TakeOutput(TcpStoreSession& session) {
  const std::string output(session.output());
  session.Sent(output.size());
  return output;
}

// All that it has to say while it is listened to.
inline std::string TakeAllOutput(TcpStoreSession& session) {
  std::string all;
  while (!session.output().empty()) all += TakeOutput(session);
  return all;
}

inline std::string ClientGreeting() {
  return EncodeGreeting(StoreSide::kClient, std::string(kStoreNonceBytes, 'c'));
}

// What follows the greeting, for a server that answered with `answer`.
inline std::string ClientProof(absl::string_view secret,
                               absl::string_view answer) {
  return StoreProof(secret, StoreSide::kClient,
                    absl::StrCat(ClientGreeting(), answer));
}

// Goes through the handshake; returns the verdict's bytes.
inline std::string Enter(TcpStoreSession& session, absl::string_view secret) {
  session.Receive(ClientGreeting());
  session.Receive(ClientProof(secret, TakeOutput(session)));
  return TakeOutput(session);
}

}  // namespace muonshard::testing

#endif  // COLLECTIVES_TESTING_STORE_CONVERSATION_H_
