// What a worker has told, until its communicator gets to it: nothing is done
// from inside UCX's callbacks.

#ifndef PLUGINS_UCX_MAILBOX_H_
#define PLUGINS_UCX_MAILBOX_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "plugins/support/host.h"
#include "plugins/support/outcome.h"
#include "plugins/ucx/inbox.h"
#include "plugins/ucx/operation.h"
#include "plugins/ucx/wire.h"
#include "plugins/ucx/worker.h"

namespace muonshard::ucx {

struct Mailbox final : Receiver {
  struct EndedTransfer {
    Operation::Message* message;
    plugins::Outcome outcome;
  };

  Mailbox(const plugins::Host& of_host, std::string of_group, int32_t of_size)
      : host(of_host), group(std::move(of_group)), size(of_size) {}

  // A message that cannot be read is logged, and missed by who waits for it.
  void Arrived(std::span<const std::byte> head,
               std::unique_ptr<Arrival> arrival) override {
    Come message;
    const plugins::Outcome read = Decode(head, size, &message.head);
    if (!read.ok()) {
      host.LogError("group " + plugins::Quoted(group) + ": " + read.text);
      return;
    }
    message.arrival = std::move(arrival);
    come.push_back(std::move(message));
  }
  void Lost(int32_t peer, const std::string& why) override {
    lost.emplace_back(peer, why);
  }

  bool empty() const { return come.empty() && ended.empty() && lost.empty(); }

  const plugins::Host& host;
  const std::string group;
  const int32_t size;
  std::deque<Come> come;
  std::deque<EndedTransfer> ended;
  std::deque<std::pair<int32_t, std::string>> lost;
};

// Messages that are no operation's.
struct Notices final : Transfer {
  void Ended(const plugins::Outcome&) override { --in_flight; }

  int32_t in_flight = 0;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_MAILBOX_H_
