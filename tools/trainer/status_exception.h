// Carries a status through code that only knows exceptions: from a callback or
// a collective, through LibTorch, to the caller of the model.

#ifndef TOOLS_TRAINER_STATUS_EXCEPTION_H_
#define TOOLS_TRAINER_STATUS_EXCEPTION_H_

#include <exception>
#include <utility>

#include "absl/status/status.h"

namespace muonshard {

struct StatusException : std::exception {
  explicit StatusException(absl::Status s) : status(std::move(s)) {}
  absl::Status status;
};

}  // namespace muonshard

#endif  // TOOLS_TRAINER_STATUS_EXCEPTION_H_
