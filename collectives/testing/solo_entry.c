/* A plugin that keeps the contract. */
#include "collectives/testing/solo_plugin.h"

MUONSHARD_EXPORT const muonshard_plugin_table* muonshard_plugin_entry_v1(
    const muonshard_host* host, muonshard_status* status) {
  static muonshard_plugin_table table;
  (void)host, (void)status;
  table = SoloTable();
  return &table;
}
