#include "plugins/loopback/work.h"

#include <utility>

#include "plugins/loopback/communicator.h"

namespace muonshard::loopback {

Work::Work(std::shared_ptr<Communicator> posted_to, Call posted,
           int32_t producers, const Fate& decided)
    : communicator(std::move(posted_to)),
      call(std::move(posted)),
      fate(decided),
      unready(producers) {
  communicator->laboratory().WorkMade();
}

Work::~Work() { communicator->laboratory().WorkGone(); }

}  // namespace muonshard::loopback
