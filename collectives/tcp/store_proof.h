// How both ends of a connection of a TCP store prove that they know the secret
// of the job, and neither sends it.
//
// A proof is HMAC-SHA256, keyed by the secret, of who proves and of all that
// was said before, in which each side's nonce is. So a proof is good on one
// connection, in one direction. Whoever overhears one can try out secrets at
// leisure: a secret must be random, and 16 random bytes are beyond trying out.

#ifndef COLLECTIVES_TCP_STORE_PROOF_H_
#define COLLECTIVES_TCP_STORE_PROOF_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/tcp/store_protocol.h"

namespace muonshard {

// kInvalidArgument for a secret that is too short.
absl::Status CheckStoreSecret(absl::string_view secret);

// kStoreNonceBytes random bytes.
absl::StatusOr<std::string> NewStoreNonce();

// Of kStoreProofBytes. `said` is what came before on the connection.
std::string StoreProof(absl::string_view secret, StoreSide prover,
                       absl::string_view said);

// Takes as long wherever the two differ.
bool IsSameProof(absl::string_view one, absl::string_view other);

}  // namespace muonshard

#endif  // COLLECTIVES_TCP_STORE_PROOF_H_
