// The long tables of a plan's report.

#ifndef OPTIMIZER_PLAN_REPORT_DETAIL_H_
#define OPTIMIZER_PLAN_REPORT_DETAIL_H_

#include <string>

#include "optimizer/plan.h"

namespace muonshard {

void AppendParameters(const Plan& plan, std::string* out);
void AppendBuckets(const Plan& plan, std::string* out);
void AppendOwners(const Plan& plan, std::string* out);

}  // namespace muonshard

#endif  // OPTIMIZER_PLAN_REPORT_DETAIL_H_
