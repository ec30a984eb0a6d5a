/* Its entry fails, and says why. */
#include "collectives/testing/solo_plugin.h"

MUONSHARD_EXPORT const muonshard_plugin_table* muonshard_plugin_entry_v1(
    const muonshard_host* host, muonshard_status* status) {
  (void)host;
  if (status != 0) {
    static const muonshard_status refusal = {
        .code = MUONSHARD_E_SYSTEM, .rank = -1, .text = "no such device"};
    *status = refusal;
  }
  return 0;
}
