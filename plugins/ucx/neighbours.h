// Messages of operations of all ranks to and from neighbours: ranks of this
// host that share memory with this one.
//
// Threads      As its communicator.
// Memory       What a peer has said is read where it lies until Release, or
//              until it is copied.
// Blocking     Nothing waits.

#ifndef PLUGINS_UCX_NEIGHBOURS_H_
#define PLUGINS_UCX_NEIGHBOURS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "plugins/support/outcome.h"
#include "plugins/ucx/channel.h"
#include "plugins/ucx/operation.h"
#include "plugins/ucx/schedule.h"
#include "plugins/ucx/windows.h"

namespace muonshard::ucx {

class Neighbours {
 public:
  // `wake` is called for peers that sleep and have something to do;
  // `bytes_sent_to`, by peer, is counted up.
  Neighbours(int32_t rank, std::unique_ptr<Channel> channel,
             const Windows* windows, std::function<void(int32_t)> wake,
             std::vector<uint64_t>* bytes_sent_to)
      : rank_(rank),
        channel_(std::move(channel)),
        windows_(*windows),
        wake_(std::move(wake)),
        bytes_sent_to_(bytes_sent_to) {}

  bool Has(int32_t peer) const { return channel_->reaches(peer); }
  Channel& channel() { return *channel_; }

  // Sends what has room of the operation's round, and hears what has been
  // released. Returns whether there was any.
  bool SendMessages(Operation& operation);
  // Takes what has come of it; the same. MUONSHARD_E_PEER: a process has ended.
  bool TakeMessages(Operation& operation, plugins::Outcome* failed);
  // Contributions that have been folded.
  void Release(Operation& operation, const Fold& fold);
  // A neighbour whose group has broken may have changed what was read in its
  // process. Then its reason, its end or the deadline ends the operation.
  bool MayHaveRead(const Operation& operation) const;

 private:
  bool SendTo(Operation& operation, const PeerPart& part, Lane& lane);
  bool SendSome(Operation& operation, const PeerPart& part, Lane& lane);
  bool TakeFrom(Operation& operation, const PeerPart& part, Lane& lane,
                plugins::Outcome* failed);
  plugins::Outcome CopyFrom(Operation& operation, const Receive& receive,
                            const Lane& lane, int32_t peer,
                            const Notice& notice,
                            const std::byte* payload) const;
  bool IsOf(const Operation& operation, const PeerPart& part,
            const Receive& receive, const Lane& lane,
            const Notice& notice) const;
  const std::byte* PayloadOf(int32_t peer, const Notice& notice) const;
  plugins::Outcome Mismatch(const Operation& operation, const PeerPart& part,
                            const Notice& notice) const;
  void Wake(int32_t peer);

  const int32_t rank_;
  const std::unique_ptr<Channel> channel_;
  const Windows& windows_;
  const std::function<void(int32_t)> wake_;
  std::vector<uint64_t>* const bytes_sent_to_;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_NEIGHBOURS_H_
