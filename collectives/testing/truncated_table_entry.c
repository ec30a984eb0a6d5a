/* Its table ends in the middle. */
#include "collectives/testing/solo_plugin.h"

MUONSHARD_EXPORT const muonshard_plugin_table* muonshard_plugin_entry_v1(
    const muonshard_host* host, muonshard_status* status) {
  static muonshard_plugin_table table;
  (void)host, (void)status;
  table = SoloTable();
  table.header.size = MUONSHARD_END(muonshard_plugin_table, post);
  return &table;
}
