#include "plugins/ucx/join.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

namespace muonshard::ucx {
namespace {

using plugins::Outcome;
using plugins::Quoted;
using plugins::RankList;

// "ucx" and the version of this format.
constexpr uint64_t kCardMagic = 0x7563780000000002;
constexpr size_t kCardBytesMax = 64 * 1024;
constexpr size_t kHostBytes = 128;
// How a rank reaches another: not through memory, through what both have
// mapped, or reading in its process as well.
constexpr char kNot = '0';
constexpr char kReaches = '1';
constexpr char kReads = '2';

// A group may have any name, and a key has letters, digits and a few others.
// Different names stay so: what is not among them, and the underscore that
// marks it, becomes its number.
std::string KeyText(const std::string& name) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') || c == '.' || c == '-' ||
                       c == '/' || c == ':';
    if (plain) {
      text += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text += {'_', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return text;
}

struct CardHead {
  uint64_t magic;
  uint32_t ucx_version;
  int32_t size;
  int64_t process;
  // Of the memory that neighbours share; -1: it shares none.
  int32_t arena_descriptor;
  uint32_t reserved;
  uint64_t probe_address;
  // Where process numbers mean the same: boot and namespace. Zeros at the end.
  std::array<char, kHostBytes> host;
};

struct Card {
  CardHead head = {};
  std::string address;
};

uint32_t UcxVersion() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  return major << 16 | minor << 8 | release;
}

std::string VersionText(uint32_t version) {
  return std::to_string(version >> 16) + "." +
         std::to_string(version >> 8 & 0xff) + "." +
         std::to_string(version & 0xff);
}

std::array<char, kHostBytes> ThisHost() {
  std::array<char, kHostBytes> host = {};
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> names = {};
  // What does not fit is cut; the last byte stays zero.
  (void)!readlink("/proc/self/ns/pid", names.data(), names.size() - 1);
  (boot + " " + names.data()).copy(host.data(), host.size() - 1);
  return host;
}

std::string Encode(const Card& card) {
  std::string text(reinterpret_cast<const char*>(&card.head),
                   sizeof(card.head));
  return text + card.address;
}

class Joiner {
 public:
  explicit Joiner(const JoinArguments& arguments) : arguments_(arguments) {}

  // `channel` may be null.
  Outcome Put(const std::string& address, Channel* channel) {
    own_.head = {
        .magic = kCardMagic,
        .ucx_version = UcxVersion(),
        .size = arguments_.identity.size,
        .process = getpid(),
        .arena_descriptor =
            channel == nullptr ? -1 : channel->arena().descriptor(),
        .reserved = 0,
        .probe_address = channel == nullptr ? 0 : channel->probe_address(),
        .host = ThisHost()};
    own_.address = address;
    return PutText(KeyOf(arguments_.identity.rank), Encode(own_));
  }

  Outcome Get(int32_t rank, Card* card) {
    std::string text(kCardBytesMax, '\0');
    if (Outcome bad = GetText(rank, KeyOf(rank), &text); !bad.ok()) return bad;
    if (text.size() < sizeof(CardHead)) {
      return Differs(rank, "has a card of another version");
    }
    std::memcpy(&card->head, text.data(), sizeof(CardHead));
    card->address = text.substr(sizeof(CardHead));
    if (card->head.magic != own_.head.magic) {
      return Differs(rank, "has a card of another version");
    }
    if (card->head.ucx_version != own_.head.ucx_version) {
      return Differs(rank, "has UCX " + VersionText(card->head.ucx_version) +
                               ", want " + VersionText(own_.head.ucx_version));
    }
    if (card->head.size != own_.head.size) {
      return Differs(rank, "came with " + std::to_string(card->head.size) +
                               " ranks, want " +
                               std::to_string(own_.head.size));
    }
    return {};
  }

  bool IsOnThisHost(const Card& card) const {
    return card.head.host == own_.head.host;
  }

  // Whether the process of `card` is another one that can be watched.
  bool CanBeWatched(const Card& card) const {
    return IsOnThisHost(card) && card.head.process != own_.head.process;
  }

  // Keeps those peers of `channel` that reach this rank, too. `candidates`: who
  // may, with their cards.
  Outcome AgreeOnNeighbours(const std::map<int32_t, Card>& candidates,
                            Channel* channel) {
    const int32_t rank = arguments_.identity.rank;
    std::string reached(static_cast<size_t>(arguments_.identity.size), kNot);
    for (const auto& [peer, card] : candidates) {
      if (!channel->reaches(peer)) continue;
      reached[static_cast<size_t>(peer)] =
          channel->CanRead(peer, card.head.probe_address) ? kReads : kReaches;
    }
    if (Outcome bad = PutText(KeyOf(rank) + "/reaches", reached); !bad.ok()) {
      return bad;
    }
    for (const auto& [peer, card] : candidates) {
      std::string text(reached.size(), kNot);
      if (Outcome bad = GetText(peer, KeyOf(peer) + "/reaches", &text);
          !bad.ok()) {
        return bad;
      }
      const auto own = static_cast<size_t>(rank);
      if (text.size() <= own || text[own] == kNot) {
        channel->Detach(peer);
      } else if (text[own] == kReads) {
        channel->SetReadBy(peer);
      }
    }
    // All who could have opened it have.
    channel->arena().Hide();
    return {};
  }

 private:
  Outcome PutText(const std::string& key, const std::string& text) {
    muonshard_status status = {};
    const muonshard_code code =
        arguments_.store->put(arguments_.store->context, key.c_str(),
                              text.data(), text.size(), &status);
    return code == MUONSHARD_OK ? Outcome{} : OfStore(code, status);
  }

  // `text` has room for it.
  Outcome GetText(int32_t rank, const std::string& key, std::string* text) {
    uint64_t bytes = 0;
    muonshard_status status = {};
    const muonshard_code code = arguments_.store->get(
        arguments_.store->context, key.c_str(), text->data(), text->size(),
        &bytes, arguments_.deadline_ns, &status);
    if (code == MUONSHARD_E_TIMEOUT) return Absent(rank);
    if (code != MUONSHARD_OK) return OfStore(code, status);
    if (bytes > text->size()) {
      return Differs(rank, "has a card of another version");
    }
    text->resize(bytes);
    return {};
  }

  std::string KeyOf(int32_t rank) const {
    return KeyText(arguments_.identity.name) + "/ucx/" + std::to_string(rank);
  }

  Outcome OfStore(muonshard_code code, const muonshard_status& status) const {
    return {.code = code,
            .text = "the making of group " + Quoted(arguments_.identity.name) +
                    ": " + status.text};
  }

  Outcome Differs(int32_t rank, const std::string& how) const {
    return {.code = MUONSHARD_E_MISMATCH,
            .text = "rank " + std::to_string(rank) + " of group " +
                    Quoted(arguments_.identity.name) + " " + how,
            .rank = rank};
  }

  // `first` did not come; who else did not?
  Outcome Absent(int32_t first) const {
    std::vector<int32_t> missing = {first};
    for (int32_t rank = first + 1; rank < arguments_.identity.size; ++rank) {
      uint64_t bytes = 0;
      muonshard_status status = {};
      if (arguments_.store->get(arguments_.store->context, KeyOf(rank).c_str(),
                                nullptr, 0, &bytes, 0,
                                &status) != MUONSHARD_OK) {
        missing.push_back(rank);
      }
    }
    return {.code = MUONSHARD_E_TIMEOUT,
            .text = "the making of group " + Quoted(arguments_.identity.name) +
                    ": deadline passed; missing " + RankList(missing),
            .rank = first};
  }

  const JoinArguments& arguments_;
  Card own_;
};

}  // namespace

Outcome JoinGroup(const std::shared_ptr<Context>& context,
                  const JoinArguments& arguments, Communicator* communicator,
                  std::vector<PeerProcess>* processes) {
  const int32_t size = arguments.identity.size;
  std::unique_ptr<Worker> worker;
  if (Outcome bad =
          Worker::Make(context, size, &communicator->mailbox(), &worker);
      !bad.ok()) {
    return bad;
  }
  std::unique_ptr<Channel> channel;
  if (size > 1) {
    if (context->may_share_memory()) {
      if (Outcome bad = Channel::Make(arguments.identity.rank, size, &channel);
          !bad.ok()) {
        return bad;
      }
    }
    std::string address;
    if (Outcome bad = worker->Address(&address); !bad.ok()) return bad;
    Joiner joiner(arguments);
    if (Outcome bad = joiner.Put(address, channel.get()); !bad.ok()) return bad;
    std::map<int32_t, Card> candidates;
    for (int32_t rank = 0; rank < size; ++rank) {
      if (rank == arguments.identity.rank) continue;
      Card card;
      if (Outcome bad = joiner.Get(rank, &card); !bad.ok()) return bad;
      if (Outcome bad = worker->Connect(rank, card.address); !bad.ok()) {
        return bad;
      }
      if (joiner.CanBeWatched(card)) {
        processes->push_back({rank, card.head.process});
      }
      if (channel == nullptr || card.head.arena_descriptor < 0 ||
          !joiner.IsOnThisHost(card)) {
        continue;
      }
      // A host that forbids it leaves UCX.
      (void)channel->Attach(rank, card.head.process,
                            card.head.arena_descriptor);
      candidates.emplace(rank, std::move(card));
    }
    if (channel != nullptr) {
      if (Outcome bad = joiner.AgreeOnNeighbours(candidates, channel.get());
          !bad.ok()) {
        return bad;
      }
    }
  }
  communicator->Adopt(std::move(worker), std::move(channel));
  return {};
}

}  // namespace muonshard::ucx
