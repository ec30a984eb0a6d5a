/* Built after a minor version that added slots to both tables. */
#include "collectives/testing/solo_plugin.h"

typedef struct newer_host {
  muonshard_host known;
  void (*added)(void* context);
} newer_host;

typedef struct newer_table {
  muonshard_plugin_table known;
  void (*added[8])(void);
} newer_table;

static void added(void) {}

MUONSHARD_EXPORT const muonshard_plugin_table* muonshard_plugin_entry_v1(
    const muonshard_host* host, muonshard_status* status) {
  static newer_table table;
  (void)status;
  /* A host that is older than the plugin ends before the slot. */
  if (host->header.size >= MUONSHARD_END(newer_host, added)) return 0;
  table.known = SoloTable();
  table.known.header.size = sizeof(table);
  table.known.abi_minor = MUONSHARD_ABI_MINOR + 1;
  table.added[0] = added;
  return &table.known;
}
