// The network on which loopback plans: what connects ranks, and how fast.
//
// In this file
//   N         ranks of a group
//   S         bytes of a buffer, P_r of segment r of it, P the largest of these
//   alpha     nanoseconds that a message takes however short it is
//   beta      nanoseconds a byte takes on a link: 8 / its rate in gbps
//   gamma     nanoseconds a rank takes to reduce a byte of operand
//   gbps      1e9 bits a second
//   port      a link as one rank has it: of its lane inside its host, or its
//             network interface. Each, and each rack's up-link, which the
//             racks' hosts share, has its full rate in either direction.
//
// Place        Rank r of the world is lane r % lanes of host r / lanes; hosts
//              fill racks in order. A message within a host goes through the
//              lane ports of both ranks, any other through their interfaces
//              and, between racks, through both up-links. A group that was not
//              split from the world counts its ranks as those of the world.
// Time         An operation begins when the last of its ranks has arrived and
//              is a sequence of stages, each of which takes its alphas, then
//              moves its bytes over links, then reduces them. Operations that
//              load one link at once share it max-min fairly; alphas are not
//              shared. Alone, with equal ports and no up-link in the way:
//
//                ring       reduce-scatter  (N-1) (alpha + P (beta + gamma))
//                           all-gather      (N-1) (alpha + P beta)
//                halving    reduce-scatter  log2(N) alpha
//                                             + (N-1)/N S (beta + gamma)
//                           all-gather      the same without gamma
//                direct     reduce-scatter  alpha + (N-1) P (beta + gamma)
//                           all-gather      alpha + (N-1) P beta
//                all-reduce                 both, on even segments
//                reduce                     a reduce-scatter, then even
//                                             segments go to the root at once
//                broadcast                  even segments go from the root at
//                                             once, then an all-gather
//                all-to-all                 all messages at once
//                message                    alpha + S beta
//                barrier                    ceil(log2(N)) alpha
//
//              These are the forms of R. Thakur, R. Rabenseifner and W. Gropp,
//              "Optimization of Collective Communication Operations in MPICH",
//              2005, sections 2 to 4, and of E. Chan, M. Heimlich, A.
//              Purkayastha and R. van de Geijn, "Collective Communication:
//              Theory, Practice, and Experience", 2007, sections 5 to 7;
//              `direct` lets all messages of a rank be on their way at once. A
//              stage of a ring is as slow as its slowest rank and largest
//              segment, so all bytes of a ring count as of that size. Stages of
//              `halving` are one after the other with the bytes they really
//              have, over lanes or interfaces as partners lie. Halving wants a
//              power of two of ranks; others take the ring.
// Stragglers   A slow rank's ports and reductions take `factor` times as long,
//              and so do the alphas of all messages from or to it.
// Result       Nothing is simulated message by message: an operation of N ranks
//              costs O(N) for each of its stages, of which a ring has one.

#ifndef PLUGINS_LOOPBACK_MODEL_NETWORK_H_
#define PLUGINS_LOOPBACK_MODEL_NETWORK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/loopback/outcome.h"

namespace muonshard::loopback {

enum class Algorithm {
  // Halving up to kHalvingBytesMax bytes of the whole buffer, else ring.
  kAuto,
  kRing,
  kHalving,
  kDirect,
};

// Where MPICH changes over, as in section 4 of Thakur et al.
inline constexpr uint64_t kHalvingBytesMax = 512 * 1024;

struct Network {
  struct SlowRank {
    int32_t rank = 0;
    double factor = 1;  // At least 1.
  };

  int32_t ranks() const { return hosts * lanes; }

  int32_t hosts = 0;
  int32_t lanes = 0;       // Of each host.
  int32_t rack_hosts = 0;  // 0: one rack, without up-link.
  double alpha_ns = 0;     // Of a message between hosts.
  double lane_alpha_ns = 0;
  // Rates of each port, each up-link and each rank's reductions. 0: not in the
  // way of anything.
  double lane_gbps = 0;
  double nic_gbps = 0;
  double uplink_gbps = 0;
  double gamma_gbps = 0;
  Algorithm algorithm = Algorithm::kAuto;
  std::vector<SlowRank> slow;
};

// Reads statements with `;` between, of KEY=VALUE with spaces between:
//
//   hosts=512 lanes=8 rack_hosts=16 alpha_ns=1500 lane_alpha_ns=600
//   lane_gbps=3600 nic_gbps=400 uplink_gbps=3200 gamma_gbps=8000
//   algorithm=ring; slow rank=17 factor=2
//
// Keys are the fields of Network; algorithm is auto, ring, halving or direct;
// hosts and lanes must be given, and rack_hosts with uplink_gbps. What is wrong
// is MUONSHARD_E_ARGUMENT, with what is known.
Outcome ReadNetwork(const std::string& text, Network* network);

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_MODEL_NETWORK_H_
