/*
 * Which client of the control socket gives way when one more comes than there may be.
 *
 * The one that is idle longest, of the user with the most connections. Clients with calls in flight
 * stay, and clients that connected just now; those with a subscription go only if their user has
 * no others. If nobody may go, the newcomer is turned away, unless it is the operator: root, or the
 * user of the daemon. For the operator, anyone of the user with the most connections goes.
 *
 * Pure; any thread.
 */
#ifndef KW_CONTROL_RPC_CROWD_H
#define KW_CONTROL_RPC_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_CROWD_YOUNG_US UINT64_C(100000) /* time for a new client to send its request */

struct kw_crowd_client {
	uint32_t uid;
	uint64_t since_us; /* connected */
	uint64_t heard_us; /* it last sent something, or was answered */
	bool calls;        /* some are in flight */
	bool subscribed;
};

/* The index of the one that gives way; -1: nobody. */
int kw_crowd_victim(
	const struct kw_crowd_client *clients, size_t count, bool operator, uint64_t now_us);

#endif
