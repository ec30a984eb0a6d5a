#include "plugins/loopback/rendezvous.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "plugins/loopback/group.h"
#include "plugins/loopback/registry.h"

namespace muonshard::loopback {
namespace {

using SplitRequest = Group::SplitRequest;

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

// Ranks take numbers from a counter in the store: every size-th one opens a
// group, whose token the others read. So a name may be used again once its
// group is gone, and whoever comes first knows who is missing.
Outcome Meet(const std::shared_ptr<Domain>& domain,
             const muonshard_comm_config& config,
             std::shared_ptr<Group>* group) {
  const std::string name = config.name;
  if (config.size == 1) {
    *group = std::make_shared<Group>(domain, name, 1);
    return {};
  }
  const muonshard_store& store = *config.store;
  muonshard_status status = {};
  const std::string key = name + "/loopback";
  int64_t come = 0;
  muonshard_code code =
      store.add(store.context, key.c_str(), 1, &come, &status);
  if (code != MUONSHARD_OK) return StoreFailed(code, status, name);
  const std::string token_key =
      key + "/" + std::to_string((come - 1) / config.size);
  Registry& registry = Registry::Get();
  if ((come - 1) % config.size == 0) {
    *group = std::make_shared<Group>(domain, name, config.size);
    const std::string token = registry.Publish(*group);
    code = store.put(store.context, token_key.c_str(), token.data(),
                     token.size(), &status);
    if (code == MUONSHARD_OK) return {};
    registry.Withdraw(group->get());
    return StoreFailed(code, status, name);
  }
  char value[128] = {};
  uint64_t bytes = 0;
  code = store.get(store.context, token_key.c_str(), value, sizeof(value),
                   &bytes, config.deadline_ns, &status);
  if (code != MUONSHARD_OK) return StoreFailed(code, status, name);
  const std::string token(value, std::min<size_t>(bytes, sizeof(value)));
  if (!registry.IsOwn(token)) {
    return {.code = MUONSHARD_E_UNSUPPORTED,
            .text =
                "loopback connects ranks of one process that loaded one "
                "copy of it; rank " +
                std::to_string(config.rank) + " of group " + Quoted(name) +
                " is in another than its peers"};
  }
  *group = registry.Find(token);
  if (*group != nullptr) return {};
  return {.code = MUONSHARD_E_TIMEOUT,
          .text = "group " + Quoted(name) + " was given up before rank " +
                  std::to_string(config.rank) + " came",
          .rank = config.rank};
}

Outcome Missing(const Group& group, const std::string& what,
                const std::vector<int32_t>& missing) {
  return {.code = MUONSHARD_E_TIMEOUT,
          .text = what + " of group " + Quoted(group.name()) + ": " +
                  std::to_string(group.size() -
                                 static_cast<int32_t>(missing.size())) +
                  " of " + std::to_string(group.size()) +
                  " ranks came; missing " + RankList(missing),
          .rank = missing.empty() ? -1 : missing[0]};
}

// Enters the group and waits for the others. The mutex is held.
Outcome EnterAndWait(HostLock& lock, Communicator& communicator,
                     const muonshard_comm_config& config) {
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
  if (group.complete()) group.NotifyMembers();
  while (!group.complete() && !group.broken()) {
    if (group.domain()->host().Now() >= config.deadline_ns) {
      group.Break(Missing(group, "the making", group.Absent()));
    } else {
      communicator.condition().Wait(lock, config.deadline_ns);
    }
  }
  if (group.complete()) return {};
  group.Leave(communicator.rank(), /*unfinished=*/false);
  return group.failure();
}

// Makes the groups of all colors; the last rank to come does it for all.
void MakeChildren(Group& parent, Group::Split& split) {
  split.children.resize(split.requests.size());
  std::map<int32_t, std::vector<size_t>> ranks_by_color;
  for (size_t rank = 0; rank < split.requests.size(); ++rank) {
    const int32_t color = split.requests[rank].color;
    if (color >= 0) ranks_by_color[color].push_back(rank);
  }
  for (auto& [color, ranks] : ranks_by_color) {
    std::stable_sort(ranks.begin(), ranks.end(), [&](size_t a, size_t b) {
      return split.requests[a].key < split.requests[b].key;
    });
    const auto child =
        std::make_shared<Group>(parent.domain(), split.requests[ranks[0]].name,
                                static_cast<int32_t>(ranks.size()));
    for (size_t i = 0; i < ranks.size(); ++i) {
      Communicator::Identity identity = split.requests[ranks[i]].identity;
      identity.rank = static_cast<int32_t>(i);
      split.children[ranks[i]] =
          std::make_shared<Communicator>(parent.domain(), child, identity);
      child->Enter(split.children[ranks[i]].get());
    }
  }
  split.made = true;
}

// Whether ranks of one color gave their group several names.
Outcome CheckNames(const Group& parent, const Group::Split& split) {
  for (size_t a = 0; a < split.requests.size(); ++a) {
    const SplitRequest& left = split.requests[a];
    for (size_t b = a + 1; b < split.requests.size(); ++b) {
      const SplitRequest& right = split.requests[b];
      if (left.color < 0 || left.color != right.color) continue;
      if (left.name == right.name) continue;
      return {.code = MUONSHARD_E_MISMATCH,
              .text = "the split of group " + Quoted(parent.name()) +
                      ": rank " + std::to_string(a) + " calls color " +
                      std::to_string(left.color) + " " + Quoted(left.name) +
                      "; rank " + std::to_string(b) + " calls it " +
                      Quoted(right.name),
              .rank = static_cast<int32_t>(b)};
    }
  }
  return {};
}

std::vector<int32_t> AbsentFrom(const Group::Split& split) {
  std::vector<int32_t> ranks;
  for (size_t rank = 0; rank < split.requests.size(); ++rank) {
    if (!split.requests[rank].came) ranks.push_back(static_cast<int32_t>(rank));
  }
  return ranks;
}

Outcome SplitLocked(HostLock& lock, Communicator& parent,
                    const SplitArguments& arguments,
                    std::shared_ptr<Communicator>* made) {
  Group& group = *parent.group();
  if (Outcome left = group.CheckNobodyLeft(); !left.ok()) group.Break(left);
  if (group.broken()) return group.failure();

  const uint64_t number = parent.NextSplit();
  const auto own = static_cast<size_t>(parent.rank());
  Group::Split& split = group.SplitOf(number);
  SplitRequest& request = split.requests[own];
  request = {.came = true,
             .color = arguments.color,
             .key = arguments.key,
             .name = arguments.name,
             .identity = parent.identity()};
  request.identity.program = parent.domain()->host().CurrentTask();
  if (++split.came == group.size()) {
    if (Outcome names = CheckNames(group, split); !names.ok()) {
      group.Break(names);
    } else {
      MakeChildren(group, split);
      group.NotifyMembers();
    }
  }
  while (!split.made && !group.broken()) {
    if (parent.domain()->host().Now() >= arguments.deadline_ns) {
      group.Break(Missing(group, "the split", AbsentFrom(split)));
    } else {
      parent.condition().Wait(lock, arguments.deadline_ns);
    }
  }
  if (!split.made) return group.failure();
  *made = std::move(split.children[own]);
  if (++split.taken == group.size()) group.EraseSplit(number);
  return {};
}

}  // namespace

Outcome JoinGroup(const std::shared_ptr<Domain>& domain,
                  const muonshard_comm_config& config, const Options& options,
                  std::shared_ptr<Communicator>* made) {
  if (Outcome bad = CheckConfig(config); !bad.ok()) return bad;
  std::shared_ptr<Group> group;
  if (Outcome apart = Meet(domain, config, &group); !apart.ok()) return apart;
  if (group->domain() != domain) {
    return {.code = MUONSHARD_E_UNSUPPORTED,
            .text = "the ranks of group " + Quoted(group->name()) +
                    " are on different runtimes"};
  }
  auto communicator = std::make_shared<Communicator>(
      domain, group,
      Communicator::Identity{.rank = config.rank,
                             .program_rank = config.program_rank,
                             .program = domain->host().CurrentTask(),
                             .options = options});
  Outcome entered;
  {
    HostLock lock(domain->mutex());
    entered = EnterAndWait(lock, *communicator, config);
    domain->Settle(lock);
  }
  Registry::Get().Withdraw(group.get());
  if (entered.ok()) *made = std::move(communicator);
  return entered;
}

Outcome SplitGroup(Communicator& parent, const SplitArguments& arguments,
                   std::shared_ptr<Communicator>* made) {
  Group& group = *parent.group();
  if (arguments.color < -1) {
    return {.code = MUONSHARD_E_ARGUMENT,
            .text = "a split of group " + Quoted(group.name()) +
                    ": want a color of at least -1, got " +
                    std::to_string(arguments.color)};
  }
  HostLock lock(parent.domain()->mutex());
  const Outcome outcome = SplitLocked(lock, parent, arguments, made);
  parent.domain()->Settle(lock);
  return outcome;
}

}  // namespace muonshard::loopback
