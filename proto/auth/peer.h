/*
 * The user at the other end of a unix socket, as the kernel names it (SO_PEERCRED): may that user
 * be trusted without a key?
 *
 * Both ends ask. The proxy hands its memory to no stranger of its host, and an agent takes no data
 * from a stranger who listens in a dead proxy's stead. Without a key, the other end must be a
 * listed user; with a key, each end has proved more than its user.
 *
 * A process of another user namespace shows the overflow uid in place of its own. Many users look
 * like that, so it is never listed, unless it is our own uid, too.
 *
 * Pure; any thread.
 */
#ifndef KW_AUTH_PEER_H
#define KW_AUTH_PEER_H

#include <stdbool.h>
#include <stdint.h>

#define KW_PEER_USERS_MAX 64

/* shm.users, as uids. Zeroed memory has no user. */
struct kw_peer_users {
	int count;
	uint32_t uids[KW_PEER_USERS_MAX];
};

/* Who judges. */
struct kw_peer_self {
	uint32_t uid;      /* effective */
	uint32_t overflow; /* /proc/sys/kernel/overflowuid */
};

enum kw_peer_user {
	KW_PEER_NO_USER, /* the connection names none: tcp, rdma */
	KW_PEER_LISTED,  /* in the list, or our own uid, or root */
	KW_PEER_UNLISTED,
	KW_PEER_UNSEEN, /* its user cannot be seen from this user namespace */
};

enum kw_peer_user kw_peer_judge(
	const struct kw_peer_users *users, const struct kw_peer_self *self, uint32_t uid);

/* False: the list is full. A uid that is there already is not added again. */
bool kw_peer_users_add(struct kw_peer_users *users, uint32_t uid);

#endif
