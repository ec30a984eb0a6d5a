// Loads on shared links as fluids: how long each takes while others come and
// go.
//
// In this file
//   flow    a sequence of stages, one after the other
//   load    bytes that a stage moves over one link
//   tight   of a stage: the link that alone would take longest
//
// Sharing      A stage moves all its loads in step: what share of one has been
//              moved, of all has. Its rate is that on its tight link. The
//              rates of all stages rise together until a link is full; those
//              that load it stay there and the others rise on (max-min
//              fairness: D. Bertsekas and R. Gallager, "Data Networks", 1992,
//              section 6.5.2). Rates change when a stage begins or ends.
// Threads      One task at a time.
// Cost         A change costs as much as the loads of the flows that share
//              links with the changed one, directly or through others.

#ifndef PLUGINS_LOOPBACK_MODEL_FLOW_H_
#define PLUGINS_LOOPBACK_MODEL_FLOW_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace muonshard::loopback {

struct Load {
  size_t link = 0;
  double bytes = 0;  // More than 0.
};

struct Stage {
  double latency_ns = 0;  // Passes before the loads begin to move.
  std::vector<Load> loads;
};

class FlowEngine {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // Bytes a nanosecond of each link; kNever for one that is never full.
  explicit FlowEngine(std::vector<double> rates);

  // Starts flow `id`, which no other has, at `now_ns`. Time never goes back.
  void Start(uint64_t id, std::vector<Stage> stages, double now_ns);

  // Takes flow `id` away at `now_ns`, if it has not ended.
  void Cancel(uint64_t id, double now_ns);

  // Moves time on and returns the flows that have ended since the last call,
  // in the order in which they ended.
  std::vector<uint64_t> Advance(double now_ns);

  // When the next stage ends, by what runs now; kNever if nothing does.
  double NextChange();

 private:
  struct Flow {
    uint64_t id = 0;
    std::vector<Stage> stages;
    size_t stage = 0;
    bool moving = false;  // Past the latency of its stage.
    double tight_bytes = 0;
    double left_bytes = 0;  // On the tight link, at updated_ns.
    double rate = 0;        // On the tight link.
    double updated_ns = 0;
    double change_ns = kNever;  // When its stage or its latency ends.
    bool collected = false;
    bool settled = false;  // Its rate is known.
  };
  struct Link {
    double rate = 0;
    std::vector<Flow*> flows;  // That load it now.
    bool collected = false;
    // While rates are shared out: what is left of the rate, and how much of it
    // the flows that still rise take for each byte on their tight links.
    double free = 0;
    double weight = 0;
  };
  // Flows and links that share, directly or through others.
  struct Component {
    std::vector<Flow*> flows;
    std::vector<size_t> links;
  };

  void RunUntil(double now_ns);
  // What its latency or its loads end with.
  void Change(Flow& flow);
  // Goes on with the stage that is next, or ends the flow.
  void BeginStage(Flow& flow);
  // False if the stage has nothing to move.
  bool BeginLoads(Flow& flow);
  void EndLoads(Flow& flow);
  void SetChange(Flow& flow, double time_ns);
  // Shares out the links of flows that came or went.
  void ShareChanged();
  Component Collect(size_t link);
  void Share(const Component& component);
  void Settle(Flow& flow, double level);

  std::vector<Link> links_;
  std::map<uint64_t, Flow> flows_;
  std::set<std::pair<double, uint64_t>> changes_;  // Time and flow.
  std::vector<size_t> changed_links_;
  std::vector<uint64_t> ended_;
  double now_ns_ = 0;
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_MODEL_FLOW_H_
