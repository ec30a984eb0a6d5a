#include "collectives/tcp/store_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "testing/status_matchers.h"

namespace muonshard {
namespace {

using ::muonshard::testing::IsOk;
using ::muonshard::testing::StatusIs;

TEST(StoreProof, DependsOnTheSecretTheProverAndWhatWasSaid) {
  const std::string secret(32, 's');
  const std::set<std::string> proofs = {
      StoreProof(secret, StoreSide::kClient, "said"),
      StoreProof(secret, StoreSide::kServer, "said"),
      StoreProof(secret, StoreSide::kClient, "sair"),
      StoreProof(std::string(33, 's'), StoreSide::kClient, "said"),
  };
  EXPECT_EQ(proofs.size(), 4u);
  for (const std::string& proof : proofs) {
    EXPECT_EQ(proof.size(), kStoreProofBytes);
  }
}

// Made with Python's hmac and hashlib:
//   hmac.new(b"s" * 16, b"muonshard store client:said", "sha256").hexdigest()
TEST(StoreProof, IsHmacSha256) {
  EXPECT_EQ(absl::BytesToHexString(
                StoreProof(std::string(16, 's'), StoreSide::kClient, "said")),
            "d7e21af69d97ee39da7c7fa26a634a4ee091df232bb590dd6e7e6fc6941f865c");
}

TEST(StoreProof, IsComparedWhole) {
  const std::string proof(kStoreProofBytes, 'p');
  EXPECT_TRUE(IsSameProof(proof, proof));
  for (size_t i = 0; i < proof.size(); ++i) {
    std::string other = proof;
    other[i] = 'q';
    EXPECT_FALSE(IsSameProof(proof, other)) << i;
  }
  EXPECT_FALSE(IsSameProof(proof, proof.substr(1)));
  EXPECT_FALSE(IsSameProof(proof, ""));
}

TEST(StoreNonce, IsNeverTheSame) {
  std::set<std::string> nonces;
  for (int i = 0; i < 1000; ++i) {
    const auto nonce = NewStoreNonce();
    ASSERT_THAT(nonce, IsOk());
    EXPECT_EQ(nonce->size(), kStoreNonceBytes);
    nonces.insert(*nonce);
  }
  EXPECT_EQ(nonces.size(), 1000u);
}

TEST(StoreSecret, HasAtLeast16Bytes) {
  EXPECT_THAT(CheckStoreSecret(std::string(16, 's')), IsOk());
  EXPECT_THAT(CheckStoreSecret(std::string(15, 's')),
              StatusIs(absl::StatusCode::kInvalidArgument, "got 15"));
}

}  // namespace
}  // namespace muonshard
