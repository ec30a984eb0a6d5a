#include "collectives/tcp/store_proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

constexpr size_t kSecretBytesMin = 16;

}  // namespace

absl::Status CheckStoreSecret(absl::string_view secret) {
  if (secret.size() >= kSecretBytesMin) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tcp store: want a secret of at least ", kSecretBytesMin,
                   " bytes, got ", secret.size()));
}

absl::StatusOr<std::string> NewStoreNonce() {
  std::string nonce(kStoreNonceBytes, '\0');
  // Of so few bytes the kernel gives all or none.
  if (getrandom(nonce.data(), nonce.size(), 0) !=
      static_cast<ssize_t>(nonce.size())) {
    return absl::UnavailableError(
        absl::StrCat("tcp store: no random bytes: ", std::strerror(errno)));
  }
  return nonce;
}

std::string StoreProof(absl::string_view secret, StoreSide prover,
                       absl::string_view said) {
  const std::string text = absl::StrCat(
      "muonshard store ", prover == StoreSide::kClient ? "client" : "server",
      ":", said);
  std::string proof(kStoreProofBytes, '\0');
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(proof.data()), nullptr);
  return proof;
}

bool IsSameProof(absl::string_view one, absl::string_view other) {
  return one.size() == other.size() &&
         CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace muonshard
