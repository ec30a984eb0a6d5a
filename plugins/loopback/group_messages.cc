// What arrives of a rank's contribution to an operation, and what the caller
// did to it meanwhile. Without the laboratory there are no messages: ranks read
// each other's memory.

#include "plugins/loopback/checks.h"
#include "plugins/loopback/group.h"
#include "plugins/loopback/message.h"

namespace muonshard::loopback {
namespace {

// What becomes of the message of a rank that has arrived.
Outcome DeliverMessage(const Group& group, const Slot& slot, size_t index) {
  Work& work = *slot.works[index];
  Laboratory& laboratory = work.communicator->laboratory();
  work.delivered = true;
  if (laboratory.checks()) PoisonOutput(work.call);
  const Message message = MakeMessage(slot.sequence, InputOf(work.call));
  work.input_checksum = message.checksum;
  if (slot.ranks.size() == 1) return {};  // It has nobody to send to.
  // The second one has a sequence that is taken.
  if (work.fate.message == Fate::Message::kTwice) laboratory.DuplicateDropped();
  const int32_t rank = slot.ranks[index];
  Outcome outcome =
      Deliver(message, work.fate.message,
              "the message of " + group.Names({rank}) + " to " +
                  Describe(work.call, slot.sequence, group.name()));
  outcome.rank = rank;
  return outcome;
}

}  // namespace

void Group::DeliverMessages(Slot& slot) {
  std::erase_if(slot.undelivered, [&](size_t index) {
    if (slot.works[index] == nullptr) return true;  // Withdrawn.
    if (broken() || !slot.arrived(index)) return false;
    if (slot.works[index]->gate > ended_) return false;
    const Outcome delivered = DeliverMessage(*this, slot, index);
    if (!delivered.ok()) Break(delivered, {ProgramRank(slot.ranks[index])});
    return true;
  });
}

void Group::CheckInputs(const Slot& slot) {
  for (size_t index = 0; index < slot.works.size(); ++index) {
    const Work& work = *slot.works[index];
    const Communicator& communicator = *work.communicator;
    if (!communicator.laboratory().checks() || communicator.dead()) continue;
    const uint64_t checksum = Checksum(InputOf(work.call));
    if (checksum == work.input_checksum) continue;
    const int32_t rank = slot.ranks[index];
    return Break({.code = MUONSHARD_E_CORRUPT,
                  .text = Describe(work.call, slot.sequence, name_) +
                          ": the caller wrote to the input of " +
                          Names({rank}) + " before the operation had ended",
                  .rank = rank,
                  .sequence = slot.sequence},
                 {ProgramRank(rank)});
  }
}

}  // namespace muonshard::loopback
