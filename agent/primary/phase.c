/* The phases of a link: which follows which, and what must hold in each. */
#include "replica.h"

static const struct kw_sm_state states[] = {
	[KW_REPLICA_OFF] = {"off", KW_SM_TO(KW_REPLICA_APART) | KW_SM_TO(KW_REPLICA_TAKING),
		KW_SM_INITIAL},
	[KW_REPLICA_APART] = {"apart", KW_SM_TO(KW_REPLICA_OFF) | KW_SM_TO(KW_REPLICA_TAKING)},
	[KW_REPLICA_TAKING] = {"taking over", KW_SM_TO(KW_REPLICA_OFF) |
						      KW_SM_TO(KW_REPLICA_APART) |
						      KW_SM_TO(KW_REPLICA_WAITING)},
	[KW_REPLICA_WAITING] = {"waiting", KW_SM_TO(KW_REPLICA_OFF) | KW_SM_TO(KW_REPLICA_APART) |
						   KW_SM_TO(KW_REPLICA_SNAPSHOT) |
						   KW_SM_TO(KW_REPLICA_ONLINE)},
	[KW_REPLICA_SNAPSHOT] = {"snapshot",
		KW_SM_TO(KW_REPLICA_OFF) | KW_SM_TO(KW_REPLICA_LOADING)},
	[KW_REPLICA_LOADING] = {"loading", KW_SM_TO(KW_REPLICA_OFF) | KW_SM_TO(KW_REPLICA_ONLINE)},
	[KW_REPLICA_ONLINE] = {"online", KW_SM_TO(KW_REPLICA_OFF) | KW_SM_TO(KW_REPLICA_WAITING)},
};

static bool holds(const void *owner, int state)
{
	const struct kw_replica *replica = owner;
	const struct kw_downlink *downlink = &replica->downlink;

	switch ((enum kw_replica_phase)state) {
	case KW_REPLICA_OFF:
	case KW_REPLICA_APART: /* the server can have connected, but nothing goes out */
		return !downlink->feed;
	case KW_REPLICA_TAKING:
		return downlink->port > 0 && kw_takeover_runs(&replica->takeover);
	case KW_REPLICA_WAITING:
		return downlink->port > 0 && !downlink->feed;
	case KW_REPLICA_SNAPSHOT:
	case KW_REPLICA_LOADING: /* a snapshot in doubt is never completed */
		return kw_downlink_up(downlink) && !downlink->feed &&
		       replica->in.snapshot.doubt[0] == '\0';
	case KW_REPLICA_ONLINE:
		return kw_downlink_up(downlink) && downlink->feed == &replica->link->feed &&
		       kw_link_is_open(replica->link);
	}
	return false;
}

static const struct kw_sm_conf machine = {"link", states, KW_REPLICA_ONLINE + 1, holds};

void kw_replica_init_phase(struct kw_replica *replica)
{
	kw_sm_init(&replica->phase, &machine, replica, KW_REPLICA_OFF);
}

void kw_replica_move(struct kw_replica *replica, enum kw_replica_phase phase, const char *why)
{
	kw_sm_move(&replica->phase, phase, why);
}
