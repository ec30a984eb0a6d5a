// The links of a network by number, with their rates, and what lies where.

#ifndef PLUGINS_LOOPBACK_MODEL_LINKS_H_
#define PLUGINS_LOOPBACK_MODEL_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugins/loopback/model/network.h"

namespace muonshard::loopback {

// Ranks are those of the world.
class Links {
 public:
  // The directions of a link are neighbours; see Reversed.
  enum Port : size_t { kLaneOut, kLaneIn, kNicOut, kNicIn, kPorts };

  explicit Links(const Network& network);

  const Network& network() const { return network_; }

  int32_t HostOf(int32_t rank) const { return rank / network_.lanes; }
  int32_t RackOf(int32_t rank) const {
    return network_.rack_hosts == 0 ? 0 : HostOf(rank) / network_.rack_hosts;
  }

  size_t PortOf(int32_t rank, Port port) const {
    return static_cast<size_t>(rank) * kPorts + port;
  }
  size_t UplinkOut(int32_t rack) const {
    return uplinks_ + 2 * static_cast<size_t>(rack);
  }
  size_t UplinkIn(int32_t rack) const { return UplinkOut(rack) + 1; }
  // The link that stands for a rank's reductions.
  size_t ReducerOf(int32_t rank) const {
    return reducers_ + static_cast<size_t>(rank);
  }

  size_t count() const { return reducers_ + slowness_.size(); }

  // The other direction of a port or an up-link.
  static size_t Reversed(size_t link) { return link ^ 1; }
  // Whether bytes come in to a rank here, and to which.
  bool IsPortIn(size_t link) const {
    return link < uplinks_ && (link & 1) == 1;
  }
  static int32_t RankOfPort(size_t link) {
    return static_cast<int32_t>(link / kPorts);
  }

  // By how much a rank is slow; 1 for most.
  double SlownessOf(int32_t rank) const {
    return slowness_[static_cast<size_t>(rank)];
  }

  // Bytes a nanosecond by link, infinity for those that are not in the way.
  std::vector<double> Rates() const;

 private:
  const Network network_;
  const size_t uplinks_;   // The first of them.
  const size_t reducers_;  // The first of them.
  std::vector<double> slowness_;
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_MODEL_LINKS_H_
