#include "plugins/loopback/rendezvous.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "plugins/loopback/group.h"
#include "plugins/loopback/injection.h"
#include "plugins/loopback/message.h"
#include "plugins/loopback/model/network_clock.h"
#include "plugins/loopback/registry.h"

namespace muonshard::loopback {
namespace {

Outcome CheckConfig(const muonshard_comm_config& config) {
  std::string bad;
  if (config.size < 1 || config.rank < 0 || config.rank >= config.size) {
    bad = "want a rank in [0, size), got rank " + std::to_string(config.rank) +
          " of " + std::to_string(config.size);
  } else if (config.name == nullptr || config.name[0] == '\0') {
    bad = "want a name for the group";
  } else if (config.store == nullptr && config.size > 1) {
    bad = "want a store, through which the ranks find each other";
  }
  if (bad.empty()) return {};
  return {.code = MUONSHARD_E_ARGUMENT, .text = "a new group: " + bad};
}

Outcome StoreFailed(muonshard_code code, const muonshard_status& status,
                    const std::string& name) {
  return {.code = code,
          .text = "the store fails group " + Quoted(name) + ": " + status.text};
}

// Where the ranks of one group meet.
struct Meeting {
  std::shared_ptr<Group> group;
  // The key under which the store gets its verdict: nothing once all ranks have
  // come, else the code and the reason why they never will. Ranks wait for this
  // key and not for a condition, because a rank that is refused may be in
  // another copy of the plugin, process or runtime: the store is all that they
  // share.
  std::string verdict_key;
};

// Ends the waits of all ranks of the meeting.
Outcome GiveVerdict(const muonshard_comm_config& config, const Meeting& meeting,
                    const Outcome& verdict) {
  const std::string value =
      verdict.ok() ? "" : std::to_string(verdict.code) + " " + verdict.text;
  const muonshard_store& store = *config.store;
  muonshard_status status = {};
  const muonshard_code code =
      store.put(store.context, meeting.verdict_key.c_str(), value.data(),
                value.size(), &status);
  if (code == MUONSHARD_OK) return {};
  return StoreFailed(code, status, config.name);
}

// The same from a rank that will not be in the group. A store that fails now
// leaves the others to their deadlines; the first error is the one to report.
Outcome Refuse(const muonshard_comm_config& config, const Meeting& meeting,
               const Outcome& refusal) {
  GiveVerdict(config, meeting, refusal);
  return refusal;
}

// The verdict, or that the store does not have it in time.
Outcome AwaitVerdict(const muonshard_comm_config& config,
                     const Meeting& meeting, int64_t deadline_ns) {
  const muonshard_store& store = *config.store;
  muonshard_status status = {};
  char value[sizeof(muonshard_status::text)] = {};
  uint64_t bytes = 0;
  const muonshard_code code =
      store.get(store.context, meeting.verdict_key.c_str(), value,
                sizeof(value), &bytes, deadline_ns, &status);
  if (code != MUONSHARD_OK) return StoreFailed(code, status, config.name);
  if (bytes == 0) return {};
  const std::string given(value, std::min<size_t>(bytes, sizeof(value)));
  const char* const end = given.data() + given.size();
  Outcome verdict;
  const auto [text, error] = std::from_chars(given.data(), end, verdict.code);
  if (error == std::errc() && !verdict.ok() && text != end) {
    verdict.text.assign(text + 1, end);
    return verdict;
  }
  return {.code = MUONSHARD_E_SYSTEM,
          .text = "group " + Quoted(config.name) +
                  ": want a code and a reason in the store, got " +
                  Quoted(given)};
}

Outcome Apart(const muonshard_comm_config& config, const std::string& want,
              const std::string& where) {
  return {.code = MUONSHARD_E_UNSUPPORTED,
          .text = "loopback connects ranks of " + want + "; rank " +
                  std::to_string(config.rank) + " of group " +
                  Quoted(config.name) + " is in another " + where +
                  " than its peers"};
}

// Ranks take numbers from a counter in the store: every size-th one opens a
// group, whose token the others read. So a name may be used again once its
// group is gone, and whoever comes first knows who is missing.
Outcome Meet(const std::shared_ptr<Domain>& domain,
             const muonshard_comm_config& config, Meeting* meeting) {
  const std::string name = config.name;
  const muonshard_store& store = *config.store;
  muonshard_status status = {};
  const std::string key = name + "/loopback";
  int64_t come = 0;
  muonshard_code code =
      store.add(store.context, key.c_str(), 1, &come, &status);
  if (code != MUONSHARD_OK) return StoreFailed(code, status, name);
  const std::string token_key =
      key + "/" + std::to_string((come - 1) / config.size);
  meeting->verdict_key = token_key + "/verdict";
  std::shared_ptr<Group>& group = meeting->group;
  Registry& registry = Registry::Get();
  if ((come - 1) % config.size == 0) {
    group = std::make_shared<Group>(domain, name, config.size);
    const std::string token = registry.Publish(group, *domain);
    code = store.put(store.context, token_key.c_str(), token.data(),
                     token.size(), &status);
    if (code == MUONSHARD_OK) return {};
    registry.Withdraw(group.get());
    return StoreFailed(code, status, name);
  }
  char value[128] = {};
  uint64_t bytes = 0;
  code = store.get(store.context, token_key.c_str(), value, sizeof(value),
                   &bytes, config.deadline_ns, &status);
  if (code != MUONSHARD_OK) return StoreFailed(code, status, name);
  const std::string token(value, std::min<size_t>(bytes, sizeof(value)));
  if (!registry.IsOwn(token)) {
    return Refuse(
        config, *meeting,
        Apart(config, "one process that loaded one copy of it", "copy"));
  }
  if (!registry.IsOf(token, *domain)) {
    return Refuse(config, *meeting, Apart(config, "one runtime", "runtime"));
  }
  group = registry.Find(token);
  if (group != nullptr) return {};
  // Whoever gave it up left the verdict first.
  Outcome given_up = AwaitVerdict(config, *meeting, /*deadline_ns=*/0);
  if (given_up.ok()) given_up.code = MUONSHARD_E_TIMEOUT;
  given_up.text = "group " + Quoted(name) + " was given up before rank " +
                  std::to_string(config.rank) + " came; " + given_up.text;
  given_up.rank = config.rank;
  return given_up;
}

// Enters the group, or breaks it. The mutex is held.
Outcome Enter(Communicator& communicator, const muonshard_comm_config& config) {
  Group& group = *communicator.group();
  if (group.broken()) return group.failure();
  if (group.size() != config.size) {
    group.Break({.code = MUONSHARD_E_MISMATCH,
                 .text = "rank " + std::to_string(config.rank) +
                         " came to group " + Quoted(group.name()) + " of " +
                         std::to_string(group.size()) + " ranks as one of " +
                         std::to_string(config.size),
                 .rank = config.rank});
    return group.failure();
  }
  if (Outcome twice = group.Enter(&communicator); !twice.ok()) {
    group.Break(twice);
    return twice;
  }
  return {};
}

// What a rank says of itself is a message to its peers.
Outcome DeliverCard(const Communicator& communicator,
                    const muonshard_comm_config& config, Fate::Message damage) {
  if (damage == Fate::Message::kTwice) {
    communicator.laboratory().DuplicateDropped();
  }
  const std::span<const char> payload(config.name, std::strlen(config.name));
  return Deliver(MakeMessage(0, {std::as_bytes(payload)}), damage,
                 "the message of rank " + std::to_string(config.rank) +
                     " to the making of group " + Quoted(config.name));
}

// Enters the group and waits until all ranks have, or one is refused.
// A rank whose message is lost waits alike, and nobody knows of it.
Outcome EnterAndWait(Communicator& communicator,
                     const muonshard_comm_config& config,
                     const Meeting& meeting, Fate::Message damage) {
  Group& group = *meeting.group;
  Domain& domain = *group.domain();
  const bool lost = damage == Fate::Message::kLost;
  Outcome entered;
  bool complete = false;
  {
    HostLock lock(domain.mutex());
    entered = DeliverCard(communicator, config, damage);
    if (!entered.ok()) group.Break(entered);
    if (!lost) entered = Enter(communicator, config);
    complete = !lost && group.complete();
    domain.Settle(lock);
  }
  if (!entered.ok()) return Refuse(config, meeting, entered);

  const Outcome verdict =
      complete ? GiveVerdict(config, meeting, {})
               : AwaitVerdict(config, meeting, config.deadline_ns);
  if (verdict.ok()) return {};
  {
    HostLock lock(domain.mutex());
    // The last rank may have come as the wait ended.
    if (!lost && !complete && group.complete()) return {};
    // The reason of a rank that broke the group itself is in the group.
    group.Break(verdict.code == MUONSHARD_E_TIMEOUT
                    ? group.NotCome("the making", group.Absent())
                    : verdict);
    if (!lost) group.Leave(communicator.rank(), /*unfinished=*/false);
    entered = group.failure();
    domain.Settle(lock);
  }
  return Refuse(config, meeting, entered);
}

}  // namespace

Outcome JoinGroup(const std::shared_ptr<Domain>& domain,
                  const std::shared_ptr<Laboratory>& laboratory,
                  const muonshard_comm_config& config, const Options& options,
                  const std::shared_ptr<NetworkClock>& network,
                  std::shared_ptr<Communicator>* made) {
  if (Outcome bad = CheckConfig(config); !bad.ok()) return bad;
  if (Outcome bad = laboratory->CheckRanks(config.size); !bad.ok()) return bad;
  if (network != nullptr) {
    Outcome bad = network->CheckRanks(config.program_rank, config.size);
    if (!bad.ok()) return bad;
  }
  Place place = {.program_rank = config.program_rank,
                 .what = "the making of group " + Quoted(config.name)};
  Fate fate;
  {
    HostLock lock(domain->mutex());
    const Outcome died = BeginOperation(lock, *domain, *laboratory,
                                        config.program_rank, place.what, &fate);
    domain->Settle(lock);
    if (!died.ok()) return died;
  }
  place.operation = fate.operation;
  Meeting meeting;
  if (config.size == 1) {
    meeting.group = std::make_shared<Group>(domain, config.name, 1);
  } else if (Outcome apart = Meet(domain, config, &meeting); !apart.ok()) {
    return apart;
  }
  auto communicator = std::make_shared<Communicator>(
      domain, meeting.group,
      Communicator::Identity{.rank = config.rank,
                             .program_rank = config.program_rank,
                             .program = domain->host().CurrentTask(),
                             .options = options,
                             .laboratory = laboratory,
                             .network = network});
  Outcome entered;
  if (config.size == 1) {
    HostLock lock(domain->mutex());
    entered = Enter(*communicator, config);
  } else {
    entered = EnterAndWait(*communicator, config, meeting, fate.message);
    Registry::Get().Withdraw(meeting.group.get());
  }
  if (!entered.ok()) return entered;
  HostLock lock(domain->mutex());
  if (fate.aborts) AbortFromAnotherTask(lock, communicator, place);
  if (fate.dies_after) Kill(*laboratory, place);
  if (communicator->dead()) {
    communicator->Leave(lock);
    return communicator->death();
  }
  domain->Settle(lock);
  *made = std::move(communicator);
  return {};
}

}  // namespace muonshard::loopback
