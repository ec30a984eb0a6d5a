// A plan as tables for a person: what is sharded how, in which groups and
// levels, what travels, what each rank computes and holds.

#ifndef OPTIMIZER_PLAN_REPORT_H_
#define OPTIMIZER_PLAN_REPORT_H_

#include <string>

#include "optimizer/plan.h"

namespace muonshard {

// Tables that can be long.
struct PlanDetail {
  bool parameters = false;  // Rule, roles, class and divisor of each.
  bool buckets = false;     // In launch order.
  bool owners = false;      // Of each matrix.
  bool all_ranks = false;   // Else of many ranks only the heaviest.
};

std::string PlanReport(const Plan& plan, const PlanDetail& detail = {});

}  // namespace muonshard

#endif  // OPTIMIZER_PLAN_REPORT_H_
