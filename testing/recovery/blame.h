// Whom a message of loopback blames.

#ifndef TESTING_RECOVERY_BLAME_H_
#define TESTING_RECOVERY_BLAME_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace muonshard::testing {

// One entry for each passed deadline that the message tells of and that is not
// cut short: the ranks of the world that are behind it all, those "held up by",
// or, where nobody is, those who have not come or are not ready.
std::vector<std::set<int32_t>> BlamedIn(const std::string& message);

}  // namespace muonshard::testing

#endif  // TESTING_RECOVERY_BLAME_H_
