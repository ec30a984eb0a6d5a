// Who a rank is in its group.

#ifndef PLUGINS_UCX_IDENTITY_H_
#define PLUGINS_UCX_IDENTITY_H_

#include <cstdint>
#include <string>

namespace muonshard::ucx {

struct Identity {
  std::string name;  // Of the group.
  int32_t rank = 0;
  int32_t size = 1;
  int32_t program_rank = 0;
};

}  // namespace muonshard::ucx

#endif  // PLUGINS_UCX_IDENTITY_H_
