// The server's end of one connection of a TCP store, without the connection:
// bytes come in, bytes go out.
//
// In this file
//   job       what all sessions of a server share: secret, limits, contents,
//   and
//             which of them wait for which key
//   stranger  whoever has not proved yet that it knows the secret
//
// Threads      All sessions of a job belong to one task.
// Memory       Beside what Receive is given at a time: of a stranger a greeting
//              and a proof; of a client one request, as much output as one
//              reply beyond kOutputBytesMax, and kWaitingCountMax keys.
// Errors       What breaks the protocol ends the session; the job is as it was.

#ifndef COLLECTIVES_TCP_STORE_SESSION_H_
#define COLLECTIVES_TCP_STORE_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "collectives/tcp/byte_queue.h"
#include "collectives/tcp/store_contents.h"
#include "collectives/tcp/store_limits.h"
#include "collectives/tcp/store_protocol.h"

namespace muonshard {

class TcpStoreSession;

struct TcpStoreJob {
  TcpStoreJob(std::string job_secret, const TcpStoreLimits& job_limits)
      : secret(std::move(job_secret)),
        limits(job_limits),
        contents(job_limits) {}

  const std::string secret;
  const TcpStoreLimits limits;
  TcpStoreContents contents;
  int32_t client_count = 0;
  // Those that wait, by key and id of the request. An entry is never empty.
  std::unordered_map<std::string,
                     std::set<std::pair<TcpStoreSession*, uint64_t>>>
      waiting;
  // Sessions that may have output that nobody has seen, because another one
  // stored what they wait for. None twice in a row.
  std::vector<TcpStoreSession*> woken;
};

class TcpStoreSession {
 public:
  static constexpr size_t kOutputBytesMax = size_t{1} << 18;
  static constexpr size_t kWaitingCountMax = 4096;

  enum class State : uint8_t {
    kStranger,
    kClient,
    kGoodbye,  // It was a client. What it sends now is not read.
    kBroken,   // `failure` says why. What is left of the output may be sent.
  };

  // `nonce` is of kStoreNonceBytes and was never used before.
  TcpStoreSession(TcpStoreJob& job, uint64_t id, std::string nonce);
  ~TcpStoreSession();
  TcpStoreSession(const TcpStoreSession&) = delete;
  TcpStoreSession& operator=(const TcpStoreSession&) = delete;

  uint64_t id() const { return id_; }
  State state() const { return state_; }
  // Whether it knew the secret, also if it has broken the protocol since.
  bool was_client() const { return was_client_; }
  const absl::Status& failure() const { return failure_; }

  // To be called only while `wants_input`.
  void Receive(absl::string_view bytes);
  // False while replies wait to be sent, so that a client that reads none
  // costs no more memory.
  bool wants_input() const { return is_open() && has_room(); }

  absl::string_view output() const { return output_.bytes(); }
  // The first `count` bytes of the output are on their way.
  void Sent(size_t count);

 private:
  bool is_open() const {
    return state_ == State::kStranger || state_ == State::kClient;
  }
  bool has_room() const { return output_.size() < kOutputBytesMax; }

  void Advance();
  // These two return false when they need more input.
  bool ReadHandshake();
  bool ReadRequest();
  void JudgeGreeting(absl::string_view bytes);
  void JudgeProof(absl::string_view proof);
  void Handle(const StoreRequest& request);
  void HandlePut(const StoreRequest& request);
  void HandleGet(const StoreRequest& request);
  void HandleAdd(const StoreRequest& request);
  void HandleCancel(const StoreRequest& request);
  void Came(uint64_t id);
  void StopWaiting(std::map<uint64_t, std::string>::iterator waiting);
  void Reply(const StoreReply& reply);
  void Refuse(uint64_t id, absl::Status refusal);
  void Break(absl::Status failure);

  TcpStoreJob& job_;
  const uint64_t id_;
  const std::string nonce_;
  State state_ = State::kStranger;
  bool was_client_ = false;
  absl::Status failure_;
  // The two greetings, once there are two.
  std::string said_;
  ByteQueue input_;
  ByteQueue output_;
  // Keys, by id of the request. `came_` is of those that are stored by now and
  // are answered when there is room.
  std::map<uint64_t, std::string> waiting_;
  std::deque<std::pair<uint64_t, std::string>> came_;
};

}  // namespace muonshard

#endif  // COLLECTIVES_TCP_STORE_SESSION_H_
