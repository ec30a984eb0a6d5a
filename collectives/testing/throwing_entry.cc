// Breaks the contract: its entry lets an exception out.

#include <stdexcept>

#include "collectives/plugin_abi.h"

extern "C" MUONSHARD_EXPORT const muonshard_plugin_table*
muonshard_plugin_entry_v1(const muonshard_host*, muonshard_status*) {
  throw std::runtime_error("out of luck");
}
