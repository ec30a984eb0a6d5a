// gMock matchers for absl::Status and absl::StatusOr.
//
//   EXPECT_THAT(work->Wait(deadline), IsOk());
//   EXPECT_THAT(group.AllReduce(in, out, op),
//               StatusIs(absl::StatusCode::kInvalidArgument, "elements"));

#ifndef TESTING_STATUS_MATCHERS_H_
#define TESTING_STATUS_MATCHERS_H_

#include <gmock/gmock.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muonshard::testing {
namespace internal {

inline const absl::Status& ToStatus(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& ToStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace internal

MATCHER(IsOk, negation ? "is an error" : "is OK") {
  *result_listener << internal::ToStatus(arg).ToString();
  return internal::ToStatus(arg).ok();
}

// The code is exact; the message need only contain `text`.
MATCHER_P2(StatusIs, code, text,
           "is " + absl::StatusCodeToString(code) + " and mentions \"" +
               std::string(text) + "\"") {
  const absl::Status& status = internal::ToStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         std::string(status.message()).find(text) != std::string::npos;
}

inline auto StatusIs(absl::StatusCode code) { return StatusIs(code, ""); }

}  // namespace muonshard::testing

#endif  // TESTING_STATUS_MATCHERS_H_
