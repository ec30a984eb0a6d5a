#include "plugins/loopback/model/flow.h"

#include <algorithm>
#include <utility>

namespace muonshard::loopback {
namespace {

// Links that fill at levels within a part in 1e12 fill together: equal flows
// take one round although their sums round differently.
constexpr double kSameLevel = 1 + 1e-12;

}  // namespace

FlowEngine::FlowEngine(std::vector<double> rates) : links_(rates.size()) {
  for (size_t i = 0; i < rates.size(); ++i) links_[i].rate = rates[i];
}

void FlowEngine::Start(uint64_t id, std::vector<Stage> stages, double now_ns) {
  if (now_ns > now_ns_) RunUntil(now_ns);
  Flow& flow = flows_[id];
  flow.id = id;
  flow.stages = std::move(stages);
  BeginStage(flow);
}

void FlowEngine::Cancel(uint64_t id, double now_ns) {
  if (now_ns > now_ns_) RunUntil(now_ns);
  const auto found = flows_.find(id);
  if (found == flows_.end()) return;
  if (found->second.moving) EndLoads(found->second);
  SetChange(found->second, kNever);
  flows_.erase(found);
}

std::vector<uint64_t> FlowEngine::Advance(double now_ns) {
  RunUntil(now_ns);
  return std::exchange(ended_, {});
}

double FlowEngine::NextChange() {
  ShareChanged();
  return changes_.empty() ? kNever : changes_.begin()->first;
}

void FlowEngine::RunUntil(double now_ns) {
  while (NextChange() <= now_ns) {
    now_ns_ = changes_.begin()->first;
    // What changes at one instant is shared out once.
    while (!changes_.empty() && changes_.begin()->first <= now_ns_) {
      Change(flows_.at(changes_.begin()->second));
    }
  }
  now_ns_ = now_ns;
}

void FlowEngine::Change(Flow& flow) {
  SetChange(flow, kNever);
  if (!flow.moving && BeginLoads(flow)) return;
  if (flow.moving) EndLoads(flow);
  ++flow.stage;
  BeginStage(flow);
}

void FlowEngine::BeginStage(Flow& flow) {
  for (; flow.stage < flow.stages.size(); ++flow.stage) {
    const double latency_ns = flow.stages[flow.stage].latency_ns;
    if (latency_ns > 0) return SetChange(flow, now_ns_ + latency_ns);
    if (BeginLoads(flow)) return;
  }
  ended_.push_back(flow.id);
  flows_.erase(flow.id);
}

bool FlowEngine::BeginLoads(Flow& flow) {
  std::vector<Load>& loads = flow.stages[flow.stage].loads;
  std::erase_if(loads, [this](const Load& load) {
    return links_[load.link].rate == kNever;
  });
  if (loads.empty()) return false;
  const auto alone_ns = [this](const Load& load) {
    return load.bytes / links_[load.link].rate;
  };
  flow.tight_bytes = std::max_element(loads.begin(), loads.end(),
                                      [&](const Load& a, const Load& b) {
                                        return alone_ns(a) < alone_ns(b);
                                      })
                         ->bytes;
  flow.left_bytes = flow.tight_bytes;
  flow.rate = 0;
  flow.updated_ns = now_ns_;
  flow.moving = true;
  for (const Load& load : loads) links_[load.link].flows.push_back(&flow);
  // The other links of its component are found from any of them.
  changed_links_.push_back(loads[0].link);
  return true;
}

void FlowEngine::EndLoads(Flow& flow) {
  flow.moving = false;
  for (const Load& load : flow.stages[flow.stage].loads) {
    std::vector<Flow*>& flows = links_[load.link].flows;
    std::erase(flows, &flow);
    if (!flows.empty()) changed_links_.push_back(load.link);
  }
}

void FlowEngine::SetChange(Flow& flow, double time_ns) {
  if (flow.change_ns == time_ns) return;
  if (flow.change_ns != kNever) changes_.erase({flow.change_ns, flow.id});
  if (time_ns != kNever) changes_.emplace(time_ns, flow.id);
  flow.change_ns = time_ns;
}

void FlowEngine::ShareChanged() {
  if (changed_links_.empty()) return;
  std::vector<Component> components;
  for (const size_t link : changed_links_) {
    // Else it is in a component with one before.
    if (!links_[link].collected) components.push_back(Collect(link));
  }
  changed_links_.clear();
  for (const Component& component : components) {
    Share(component);
    for (Flow* flow : component.flows) flow->collected = false;
    for (const size_t link : component.links) links_[link].collected = false;
  }
}

FlowEngine::Component FlowEngine::Collect(size_t link) {
  Component component;
  component.links.push_back(link);
  links_[link].collected = true;
  for (size_t next = 0; next < component.links.size(); ++next) {
    for (Flow* flow : links_[component.links[next]].flows) {
      if (flow->collected) continue;
      flow->collected = true;
      component.flows.push_back(flow);
      for (const Load& load : flow->stages[flow->stage].loads) {
        Link& other = links_[load.link];
        if (other.collected) continue;
        other.collected = true;
        component.links.push_back(load.link);
      }
    }
  }
  return component;
}

void FlowEngine::Share(const Component& component) {
  for (const size_t index : component.links) {
    links_[index].free = links_[index].rate;
    links_[index].weight = 0;
  }
  for (Flow* flow : component.flows) {
    flow->settled = false;
    flow->left_bytes -= flow->rate * (now_ns_ - flow->updated_ns);
    flow->left_bytes = std::max(flow->left_bytes, 0.0);
    flow->updated_ns = now_ns_;
    for (const Load& load : flow->stages[flow->stage].loads) {
      links_[load.link].weight += load.bytes / flow->tight_bytes;
    }
  }
  std::vector<size_t> rising = component.links;
  double last_level = 0;
  while (!rising.empty()) {
    // The level, bytes a nanosecond on tight links, at which the next is full.
    double level = kNever;
    for (const size_t index : rising) {
      level = std::min(level, links_[index].free / links_[index].weight);
    }
    level = std::max(level, last_level);  // But for rounding it never falls.
    last_level = level;
    std::vector<size_t> rest;
    for (const size_t index : rising) {
      const Link& link = links_[index];
      if (link.free / link.weight > level * kSameLevel) {
        rest.push_back(index);
        continue;
      }
      for (Flow* flow : link.flows) {
        if (!flow->settled) Settle(*flow, level);
      }
    }
    // Links on which nobody rises any more, by rounding or truly.
    std::erase_if(rest, [this](size_t index) {
      const std::vector<Flow*>& flows = links_[index].flows;
      return std::all_of(flows.begin(), flows.end(),
                         [](const Flow* flow) { return flow->settled; });
    });
    rising = std::move(rest);
  }
}

void FlowEngine::Settle(Flow& flow, double level) {
  flow.settled = true;
  flow.rate = level;
  for (const Load& load : flow.stages[flow.stage].loads) {
    const double share = load.bytes / flow.tight_bytes;
    links_[load.link].free -= share * level;
    links_[load.link].weight -= share;
  }
  SetChange(flow, now_ns_ + flow.left_bytes / level);
}

}  // namespace muonshard::loopback
