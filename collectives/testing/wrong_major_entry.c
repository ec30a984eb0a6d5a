/* Under the entry of version 1 lies a table of version 2. */
#include "collectives/testing/solo_plugin.h"

MUONSHARD_EXPORT const muonshard_plugin_table* muonshard_plugin_entry_v1(
    const muonshard_host* host, muonshard_status* status) {
  static muonshard_plugin_table table;
  (void)host, (void)status;
  table = SoloTable();
  table.abi_major = 2;
  return &table;
}
