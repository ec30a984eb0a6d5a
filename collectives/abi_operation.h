// An Operation as it crosses the plugin ABI.

#ifndef COLLECTIVES_ABI_OPERATION_H_
#define COLLECTIVES_ABI_OPERATION_H_

#include <vector>

#include "collectives/operation.h"
#include "collectives/plugin_abi.h"

namespace muonshard {

class AbiOperation {
 public:
  // `operation` has passed CheckOperation and outlives this object, which is
  // where `get` points into.
  explicit AbiOperation(const Operation& operation);
  AbiOperation(AbiOperation&&) = default;

  const muonshard_operation* get() const { return &abi_; }

 private:
  muonshard_operation abi_;
  std::vector<void*> ready_;
};

}  // namespace muonshard

#endif  // COLLECTIVES_ABI_OPERATION_H_
