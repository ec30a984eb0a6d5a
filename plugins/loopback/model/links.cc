#include "plugins/loopback/model/links.h"

#include <limits>

namespace muonshard::loopback {
namespace {

// A gbps is 1e9 bits in 1e9 nanoseconds.
double BytesPerNs(double gbps) {
  constexpr double kBitsPerByte = 8;
  return gbps == 0 ? std::numeric_limits<double>::infinity()
                   : gbps / kBitsPerByte;
}

size_t RackCount(const Network& network) {
  const int32_t rack_hosts =
      network.rack_hosts == 0 ? network.hosts : network.rack_hosts;
  return static_cast<size_t>((network.hosts - 1) / rack_hosts + 1);
}

}  // namespace

Links::Links(const Network& network)
    : network_(network),
      uplinks_(static_cast<size_t>(network.ranks()) * kPorts),
      reducers_(uplinks_ + 2 * RackCount(network)),
      slowness_(static_cast<size_t>(network.ranks()), 1) {
  for (const Network::SlowRank& slow : network.slow) {
    slowness_[static_cast<size_t>(slow.rank)] = slow.factor;
  }
}

std::vector<double> Links::Rates() const {
  std::vector<double> rates(count(), BytesPerNs(network_.uplink_gbps));
  for (int32_t rank = 0; rank < network_.ranks(); ++rank) {
    const double slowness = SlownessOf(rank);
    const double lane = BytesPerNs(network_.lane_gbps) / slowness;
    const double nic = BytesPerNs(network_.nic_gbps) / slowness;
    rates[PortOf(rank, kLaneOut)] = rates[PortOf(rank, kLaneIn)] = lane;
    rates[PortOf(rank, kNicOut)] = rates[PortOf(rank, kNicIn)] = nic;
    rates[ReducerOf(rank)] = BytesPerNs(network_.gamma_gbps) / slowness;
  }
  return rates;
}

}  // namespace muonshard::loopback
