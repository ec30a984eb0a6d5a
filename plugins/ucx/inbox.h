// Messages that came before their operation was ready for them.

#ifndef PLUGINS_UCX_INBOX_H_
#define PLUGINS_UCX_INBOX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "plugins/ucx/wire.h"
#include "plugins/ucx/worker.h"

namespace muonshard::ucx {

struct Come {
  Head head;
  std::unique_ptr<Arrival> arrival;
};

class Inbox {
 public:
  // What tells messages to one rank apart.
  struct Key {
    explicit Key(const Head& head)
        : Key(head.kind, head.sender, head.sequence, head.round, head.number) {}
    Key(MessageKind of_kind, int32_t of_sender, uint64_t of_sequence,
        uint32_t of_round, uint32_t of_number)
        : fields(of_kind, of_sender, of_sequence, of_round, of_number) {}
    bool operator<(const Key& other) const { return fields < other.fields; }

    std::tuple<MessageKind, int32_t, uint64_t, uint32_t, uint32_t> fields;
  };

  // The first of its key counts.
  void Add(Come come) {
    const Key key(come.head);
    messages_.emplace(key, std::move(come));
  }
  bool Has(const Key& key) const { return messages_.count(key) > 0; }
  std::optional<Come> Take(const Key& key) {
    const auto found = messages_.find(key);
    if (found == messages_.end()) return std::nullopt;
    Come come = std::move(found->second);
    messages_.erase(found);
    return come;
  }
  void Clear() { messages_.clear(); }

 private:
  std::map<Key, Come> messages_;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_INBOX_H_
