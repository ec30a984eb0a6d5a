#include "collectives/tcp/store_session.h"

#include <algorithm>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/store.h"
#include "collectives/tcp/store_proof.h"

namespace muonshard {

TcpStoreSession::TcpStoreSession(TcpStoreJob& job, uint64_t id,
                                 std::string nonce)
    : job_(job), id_(id), nonce_(std::move(nonce)) {}

TcpStoreSession::~TcpStoreSession() {
  while (!waiting_.empty()) StopWaiting(waiting_.begin());
  job_.woken.erase(std::remove(job_.woken.begin(), job_.woken.end(), this),
                   job_.woken.end());
  if (was_client_) --job_.client_count;
}

void TcpStoreSession::Receive(absl::string_view bytes) {
  input_.Append(bytes);
  Advance();
}

void TcpStoreSession::Sent(size_t count) {
  output_.Drop(count);
  Advance();
}

void TcpStoreSession::Advance() {
  while (state_ == State::kStranger && ReadHandshake()) {
  }
  while (state_ == State::kClient && has_room()) {
    if (!came_.empty()) {
      const auto [id, key] = std::move(came_.front());
      came_.pop_front();
      Reply({.type = StoreReplyType::kValue,
             .id = id,
             .value = *job_.contents.Find(key)});
    } else if (!ReadRequest()) {
      return;
    }
  }
}

bool TcpStoreSession::ReadHandshake() {
  const bool has_greeted = !said_.empty();
  const size_t want = has_greeted ? kStoreProofBytes : kStoreGreetingBytes;
  if (input_.size() < want) return false;
  const std::string bytes(input_.bytes().substr(0, want));
  input_.Drop(want);
  if (!input_.empty()) {
    // It cannot have more to say before it has heard the answer.
    Break(absl::InvalidArgumentError("it says more than it was asked"));
  } else if (has_greeted) {
    JudgeProof(bytes);
  } else {
    JudgeGreeting(bytes);
  }
  return true;
}

void TcpStoreSession::JudgeGreeting(absl::string_view bytes) {
  const absl::StatusOr<StoreGreeting> greeting =
      ParseGreeting(StoreSide::kClient, bytes);
  if (!greeting.ok()) {
    Break(greeting.status());
    return;
  }
  // Also for another version, which then knows this one's.
  const std::string answer = EncodeGreeting(StoreSide::kServer, nonce_);
  output_.Append(answer);
  if (greeting->version != kStoreProtocolVersion) {
    Break(absl::FailedPreconditionError(
        absl::StrCat("it speaks version ", greeting->version,
                     " of the protocol, want ", kStoreProtocolVersion)));
    return;
  }
  said_ = absl::StrCat(bytes, answer);
}

void TcpStoreSession::JudgeProof(absl::string_view proof) {
  StoreVerdict verdict;
  if (!IsSameProof(proof, StoreProof(job_.secret, StoreSide::kClient, said_))) {
    const std::string none(kStoreProofBytes, '\0');
    verdict = {.admission = StoreAdmission::kWrongSecret, .proof = none};
    output_.Append(EncodeVerdict(verdict));
    Break(absl::PermissionDeniedError("it does not know the secret"));
    return;
  }
  verdict.value_bytes_max = job_.limits.value_bytes_max;
  const bool is_full = job_.client_count >= job_.limits.client_count_max;
  if (is_full) verdict.admission = StoreAdmission::kTooManyClients;
  const std::string own_proof = StoreProof(
      job_.secret, StoreSide::kServer,
      absl::StrCat(
          said_, proof,
          EncodeVerdictTerms(verdict.admission, verdict.value_bytes_max)));
  verdict.proof = own_proof;
  output_.Append(EncodeVerdict(verdict));
  if (is_full) {
    Break(absl::ResourceExhaustedError(
        absl::StrCat("there are ", job_.client_count, " clients already")));
    return;
  }
  state_ = State::kClient;
  was_client_ = true;
  ++job_.client_count;
}

bool TcpStoreSession::ReadRequest() {
  const absl::StatusOr<std::optional<absl::string_view>> frame = FirstFrame(
      input_.bytes(), job_.limits.value_bytes_max + kStoreFrameExtraMax);
  if (!frame.ok()) {
    Break(frame.status());
    return false;
  }
  if (!frame->has_value()) return false;
  const absl::StatusOr<StoreRequest> request =
      ParseRequest(FrameContent(**frame));
  if (!request.ok()) {
    Break(request.status());
    return false;
  }
  Handle(*request);
  input_.Drop((*frame)->size());
  return true;
}

void TcpStoreSession::Handle(const StoreRequest& request) {
  switch (request.type) {
    case StoreRequestType::kGoodbye:
      state_ = State::kGoodbye;
      return;
    case StoreRequestType::kCancel:
      HandleCancel(request);
      return;
    default:
      break;
  }
  if (absl::Status s = CheckStoreKey(request.key); !s.ok()) {
    Refuse(request.id, std::move(s));
    return;
  }
  if (request.type == StoreRequestType::kPut) HandlePut(request);
  if (request.type == StoreRequestType::kGet) HandleGet(request);
  if (request.type == StoreRequestType::kAdd) HandleAdd(request);
}

void TcpStoreSession::HandlePut(const StoreRequest& request) {
  const std::string key(request.key);
  if (absl::Status s = job_.contents.Put(key, request.value); !s.ok()) {
    Refuse(request.id, std::move(s));
    return;
  }
  Reply({.type = StoreReplyType::kDone, .id = request.id});
  auto waiting = job_.waiting.extract(key);
  if (waiting.empty()) return;
  for (const auto& [session, id] : waiting.mapped()) session->Came(id);
}

void TcpStoreSession::HandleGet(const StoreRequest& request) {
  std::string key(request.key);
  if (const std::string* const value = job_.contents.Find(key)) {
    Reply({.type = StoreReplyType::kValue, .id = request.id, .value = *value});
    return;
  }
  if (waiting_.count(request.id) > 0) {
    Break(absl::InvalidArgumentError(
        absl::StrCat("it asked twice as ", request.id)));
    return;
  }
  if (waiting_.size() + came_.size() >= kWaitingCountMax) {
    Refuse(request.id, absl::ResourceExhaustedError(absl::StrCat(
                           "tcp store: a client waits for at most ",
                           kWaitingCountMax, " keys at once")));
    return;
  }
  job_.waiting[key].emplace(this, request.id);
  waiting_.emplace(request.id, std::move(key));
}

void TcpStoreSession::HandleAdd(const StoreRequest& request) {
  const absl::StatusOr<int64_t> sum =
      job_.contents.Add(std::string(request.key), request.delta);
  if (!sum.ok()) {
    Refuse(request.id, sum.status());
    return;
  }
  Reply({.type = StoreReplyType::kSum, .id = request.id, .sum = *sum});
}

void TcpStoreSession::HandleCancel(const StoreRequest& request) {
  const auto waiting = waiting_.find(request.id);
  // Else its reply is on its way.
  if (waiting == waiting_.end()) return;
  StopWaiting(waiting);
  Reply({.type = StoreReplyType::kAbsent, .id = request.id});
}

void TcpStoreSession::Came(uint64_t id) {
  auto waiting = waiting_.extract(id);
  came_.emplace_back(id, std::move(waiting.mapped()));
  if (job_.woken.empty() || job_.woken.back() != this) {
    job_.woken.push_back(this);
  }
}

void TcpStoreSession::StopWaiting(
    std::map<uint64_t, std::string>::iterator waiting) {
  const auto sessions = job_.waiting.find(waiting->second);
  sessions->second.erase({this, waiting->first});
  if (sessions->second.empty()) job_.waiting.erase(sessions);
  waiting_.erase(waiting);
}

void TcpStoreSession::Reply(const StoreReply& reply) {
  output_.Append(EncodeReply(reply));
}

void TcpStoreSession::Refuse(uint64_t id, absl::Status refusal) {
  Reply({.type = StoreReplyType::kRefused,
         .id = id,
         .refusal = std::move(refusal)});
}

void TcpStoreSession::Break(absl::Status failure) {
  state_ = State::kBroken;
  failure_ = std::move(failure);
}

}  // namespace muonshard
