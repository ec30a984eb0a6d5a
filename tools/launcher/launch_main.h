// The launcher as a function: flags in, exit status out.

#ifndef TOOLS_LAUNCHER_LAUNCH_MAIN_H_
#define TOOLS_LAUNCHER_LAUNCH_MAIN_H_

#include <iosfwd>
#include <span>

#include "absl/strings/string_view.h"

namespace muonshard {

// `arguments` without the program's name. Called by the first thread, while
// there is no other. What ranks write to their outputs goes to `out` and
// `errors`.
int LaunchMain(std::span<const absl::string_view> arguments, std::ostream& out,
               std::ostream& errors);

}  // namespace muonshard

#endif  // TOOLS_LAUNCHER_LAUNCH_MAIN_H_
