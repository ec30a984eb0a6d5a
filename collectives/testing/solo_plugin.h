/* A plugin in plain C for groups of one rank: the smallest that keeps the
 * whole contract of plugin_abi.h. Tests of the core's side run on it, and the
 * plugins that break the contract are made from its table.
 *
 * Calls        An operation ends when its ready events have happened and every
 *              earlier one of its communicator has ended; data is copied.
 *              Reductions of one contribution are that contribution.
 *              Its report is "solo: 1" on each of a thousand lines.
 * On request   Options that contain "refuse" fail `open`, "no caps" `caps`,
 *              "no report" `report`. A group named "refused" is not made, one
 *              named "uncounted" has no counters. A call labelled "refused"
 *              fails its post, one labelled "lost" gets no work.
 *              Each post writes "post of COUNT" to the log, each `close`
 *              "closed". */
#ifndef COLLECTIVES_TESTING_SOLO_PLUGIN_H_
#define COLLECTIVES_TESTING_SOLO_PLUGIN_H_

#include "collectives/plugin_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

muonshard_plugin_table SoloTable(void);

#ifdef __cplusplus
}
#endif

#endif /* COLLECTIVES_TESTING_SOLO_PLUGIN_H_ */
