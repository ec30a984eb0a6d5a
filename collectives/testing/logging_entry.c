/* Writes to the log before anything else. */
#include "collectives/testing/solo_plugin.h"

MUONSHARD_EXPORT const muonshard_plugin_table* muonshard_plugin_entry_v1(
    const muonshard_host* host, muonshard_status* status) {
  static muonshard_plugin_table table;
  (void)status;
  host->log(host->context, 1, "hello from the entry");
  table = SoloTable();
  return &table;
}
