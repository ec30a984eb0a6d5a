#include "plugins/loopback/split_group.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "plugins/loopback/domain.h"
#include "plugins/loopback/group.h"
#include "plugins/loopback/injection.h"
#include "plugins/loopback/message.h"
#include "plugins/loopback/split.h"

namespace muonshard::loopback {
namespace {

// Makes the groups of all colors; the last rank to come does it for all.
void MakeChildren(Group& parent, Split& split) {
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
Outcome CheckNames(const Group& parent, const Split& split) {
  for (size_t a = 0; a < split.requests.size(); ++a) {
    const Split::Request& left = split.requests[a];
    for (size_t b = a + 1; b < split.requests.size(); ++b) {
      const Split::Request& right = split.requests[b];
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

std::vector<int32_t> AbsentFrom(const Split& split) {
  std::vector<int32_t> ranks;
  for (size_t rank = 0; rank < split.requests.size(); ++rank) {
    if (!split.requests[rank].came) ranks.push_back(static_cast<int32_t>(rank));
  }
  return ranks;
}

std::string WhatOf(const Communicator& parent,
                   const SplitArguments& arguments) {
  return "the split " + Quoted(arguments.name) + " of group " +
         Quoted(parent.group()->name());
}

Place PlaceOf(const Communicator& parent, const Fate& fate,
              const SplitArguments& arguments) {
  return {.program_rank = parent.identity().program_rank,
          .operation = fate.operation,
          .what = WhatOf(parent, arguments)};
}

// OK if the split can go on.
Outcome BeginSplit(HostLock& lock, Communicator& parent,
                   const SplitArguments& arguments, Fate* fate) {
  Group& group = *parent.group();
  if (Outcome left = group.CheckNobodyLeft(); !left.ok()) parent.Abort(left);
  if (Outcome failure = parent.failure(); !failure.ok()) return failure;
  const Outcome died = BeginOperation(
      lock, *parent.domain(), parent.laboratory(),
      parent.identity().program_rank, WhatOf(parent, arguments), fate);
  // It may have been broken while this rank was late.
  return died.ok() ? parent.failure() : parent.death();
}

// The request of a rank is a message to its peers, of which a rank alone has
// none.
Outcome DeliverRequest(const Communicator& parent, uint64_t number,
                       const SplitArguments& arguments, Fate* fate) {
  if (parent.group()->size() == 1) fate->message = Fate::Message::kWhole;
  if (fate->message == Fate::Message::kTwice) {
    parent.laboratory().DuplicateDropped();
  }
  const std::span<const char> payload(arguments.name);
  return Deliver(MakeMessage(number, {std::as_bytes(payload)}), fate->message,
                 "the message of " + parent.group()->Names({parent.rank()}) +
                     " to " + WhatOf(parent, arguments));
}

Outcome SplitLocked(HostLock& lock, Communicator& parent,
                    const SplitArguments& arguments,
                    std::shared_ptr<Communicator>* made) {
  Group& group = *parent.group();
  Fate fate;
  if (Outcome o = BeginSplit(lock, parent, arguments, &fate); !o.ok()) return o;

  const uint64_t number = parent.NextSplit();
  const Outcome delivered = DeliverRequest(parent, number, arguments, &fate);
  if (!delivered.ok()) {
    group.Break(delivered, {parent.identity().program_rank});
    return parent.failure();
  }
  const auto own = static_cast<size_t>(parent.rank());
  Split& split = group.SplitOf(number);
  Split::Request& request = split.requests[own];
  request = {.came = true,
             .color = arguments.color,
             .key = arguments.key,
             .name = arguments.name,
             .identity = parent.identity()};
  request.identity.program = parent.domain()->host().CurrentTask();
  if (fate.message == Fate::Message::kLost) {
    request.came = false;
  } else {
    ++split.came;
  }
  if (split.came == group.size()) {
    if (Outcome names = CheckNames(group, split); !names.ok()) {
      group.Break(names);
    } else {
      MakeChildren(group, split);
      group.NotifyMembers();
    }
  }
  if (fate.aborts) {
    AbortFromAnotherTask(lock, parent.shared_from_this(),
                         PlaceOf(parent, fate, arguments));
  }
  while (!split.made && parent.failure().ok()) {
    if (parent.domain()->host().Now() >= arguments.deadline_ns) {
      const std::vector<int32_t> absent = AbsentFrom(split);
      group.Break(group.NotCome("the split", absent), group.CulpritsOf(absent));
    } else {
      parent.condition().Wait(lock, arguments.deadline_ns);
    }
  }
  if (!split.made) return parent.failure();
  *made = std::move(split.children[own]);
  if (++split.taken == group.size()) group.EraseSplit(number);
  if (fate.dies_after) {
    Kill(parent.laboratory(), PlaceOf(parent, fate, arguments));
  }
  if (parent.dead() && *made != nullptr) {
    (*made)->group()->Leave((*made)->rank(), /*unfinished=*/false);
  }
  return parent.death();
}

}  // namespace

Outcome SplitGroup(Communicator& parent, const SplitArguments& arguments,
                   std::shared_ptr<Communicator>* made) {
  Group& group = *parent.group();
  if (arguments.color < -1) {
    return {.code = MUONSHARD_E_ARGUMENT,
            .text = "a split of group " + Quoted(group.name()) +
                    ": want a color of at least -1, got " +
                    std::to_string(arguments.color)};
  }
  Outcome outcome;
  {
    HostLock lock(parent.domain()->mutex());
    outcome = SplitLocked(lock, parent, arguments, made);
    parent.domain()->Settle(lock);
  }
  if (!outcome.ok()) made->reset();
  return outcome;
}

}  // namespace muonshard::loopback
