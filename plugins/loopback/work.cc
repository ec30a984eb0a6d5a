#include "plugins/loopback/work.h"

#include <utility>

#include "plugins/loopback/communicator.h"

namespace muonshard::loopback {

Work::Work(std::shared_ptr<Communicator> posted_to, Call posted,
           int32_t producers, const Fate& decided)
    : communicator(std::move(posted_to)),
      call(std::move(posted)),
      fate(decided),
      unready(producers),
      delivered(!communicator->laboratory().makes_messages()) {
  communicator->laboratory().WorkMade();
}

Work::~Work() { communicator->laboratory().WorkGone(); }

}  // namespace muonshard::loopback
