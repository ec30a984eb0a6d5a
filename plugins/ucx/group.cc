#include "plugins/ucx/group.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "plugins/support/call.h"
#include "plugins/ucx/locked.h"

namespace muonshard::ucx {
namespace {

using plugins::Call;
using plugins::Outcome;
using plugins::Quoted;

// What each rank tells of its split.
struct SplitCard {
  int32_t color;
  int32_t key;
  std::array<char, 512> name;  // Zeros at the end.
};

struct Pending {
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<Operation> operation;
};

void OnProducer(void* argument, muonshard_code code, const char* text) {
  const std::unique_ptr<Pending> pending(static_cast<Pending*>(argument));
  Locked locked(pending->communicator);
  pending->communicator->ProducerEnded(*pending->operation, code, text);
}

}  // namespace

Outcome Group::Make(const std::shared_ptr<Opened>& opened,
                    const JoinArguments& arguments,
                    std::shared_ptr<Group>* made) {
  std::shared_ptr<Group> group(new Group(opened));
  group->communicator_ = std::make_shared<Communicator>(
      opened->host, arguments.identity, ScheduleOptions{});
  std::vector<PeerProcess> processes;
  if (Outcome bad = JoinGroup(opened->context, arguments,
                              group->communicator_.get(), &processes);
      !bad.ok()) {
    return bad;
  }
  group->service_ =
      std::make_unique<Service>(opened->host, group->communicator_);
  group->service_->Watch(processes);
  if (Outcome bad = group->service_->Start(); !bad.ok()) return bad;
  *made = std::move(group);
  return {};
}

bool Group::IsDone() {
  Locked locked(communicator_);
  return service_->done();
}

Outcome Group::Gather(const std::string& label, int64_t deadline_ns,
                      std::span<const std::byte> mine,
                      std::span<std::byte> all) {
  const std::vector<uint64_t> counts(
      static_cast<size_t>(communicator_->identity().size), mine.size());
  muonshard_operation gather = {};
  gather.header.size = MUONSHARD_END(muonshard_operation, label);
  gather.kind = MUONSHARD_ALL_GATHER_V;
  gather.data_type = MUONSHARD_U8;
  // Read alone.
  gather.in = {const_cast<std::byte*>(mine.data()), mine.size()};
  gather.out = {all.data(), all.size()};
  gather.out_counts = counts.data();
  gather.deadline_ns = deadline_ns;
  gather.label = label.c_str();
  std::shared_ptr<Operation> posted;
  uint32_t failed = 0;
  const PostRequest request = {this, &gather};
  if (Outcome bad = Post({&request, 1}, {&posted, 1}, &failed); !bad.ok()) {
    return bad;
  }
  return service_->Wait(*posted, INT64_MAX);
}

Outcome Group::Split(int32_t color, int32_t key,
                     const muonshard_comm_config& config,
                     std::shared_ptr<Group>* made) {
  const Identity& own = communicator_->identity();
  const auto size = static_cast<size_t>(own.size);
  SplitCard mine = {.color = color, .key = key, .name = {}};
  const std::string name = config.name == nullptr ? "" : config.name;
  name.copy(mine.name.data(), mine.name.size() - 1);
  std::vector<SplitCard> cards(size);
  const std::string label = "the split " + Quoted(name);
  if (Outcome bad =
          Gather(label, config.deadline_ns, std::as_bytes(std::span(&mine, 1)),
                 std::as_writable_bytes(std::span(cards)));
      !bad.ok()) {
    return bad;
  }
  if (color < 0) return {};
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < own.size; ++rank) {
    const SplitCard& card = cards[static_cast<size_t>(rank)];
    if (card.color != color) continue;
    if (card.name != mine.name) {
      return {.code = MUONSHARD_E_MISMATCH,
              .text = label + " of group " + Quoted(own.name) + ": rank " +
                      std::to_string(rank) + " calls color " +
                      std::to_string(color) + " " + Quoted(card.name.data()),
              .rank = rank};
    }
    ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int32_t a, int32_t b) {
    return cards[static_cast<size_t>(a)].key <
           cards[static_cast<size_t>(b)].key;
  });
  const auto place = std::find(ranks.begin(), ranks.end(), own.rank);
  const JoinArguments arguments = {
      .store = config.store,
      .identity = {.name = name + "/" + std::to_string(color),
                   .rank = static_cast<int32_t>(place - ranks.begin()),
                   .size = static_cast<int32_t>(ranks.size()),
                   .program_rank = own.program_rank},
      .deadline_ns = config.deadline_ns};
  return Make(opened_, arguments, made);
}

Outcome Post(std::span<const PostRequest> requests,
             std::span<std::shared_ptr<Operation>> posted, uint32_t* failed) {
  for (size_t i = 0; i < requests.size(); ++i) {
    *failed = static_cast<uint32_t>(i);
    const PostRequest& request = requests[i];
    const Identity& own = request.group->communicator().identity();
    Call call;
    if (Outcome bad =
            plugins::MakeCall(*request.operation, own.rank, own.size, &call);
        !bad.ok()) {
      return bad;
    }
    posted[i] = std::make_shared<Operation>(
        request.group->shared(), std::move(call),
        static_cast<int32_t>(request.operation->ready_count));
  }
  // What has broken a group may have come.
  const auto may_post = [](Communicator& communicator) {
    communicator.Advance(/*in_a_hurry=*/true);
    return !communicator.broken();
  };
  if (requests.size() > 1) {
    for (size_t i = 0; i < requests.size(); ++i) {
      *failed = static_cast<uint32_t>(i);
      Locked locked(requests[i].group->shared());
      Communicator& communicator = requests[i].group->communicator();
      if (!may_post(communicator)) return communicator.failure();
    }
  }
  *failed = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::shared_ptr<Operation>& operation = posted[i];
    Communicator& communicator = *operation->communicator;
    {
      Locked locked(operation->communicator);
      if (requests.size() == 1 && !may_post(communicator)) {
        return communicator.failure();
      }
      communicator.Enqueue(operation);
      communicator.Advance(/*in_a_hurry=*/true);
    }
    const muonshard_operation& description = *requests[i].operation;
    for (uint32_t e = 0; e < description.ready_count; ++e) {
      auto pending = std::make_unique<Pending>(Pending{
          .communicator = operation->communicator, .operation = operation});
      const muonshard_host& host = communicator.host().table();
      host.event_then(host.context,
                      static_cast<muonshard_event>(description.ready[e]),
                      OnProducer, pending.release());
    }
  }
  return {};
}

}  // namespace muonshard::ucx
