#include "control/rpc/crowd.h"

static size_t held_by(const struct kw_crowd_client *clients, size_t count, uint32_t uid)
{
	size_t held = 0;

	for (size_t i = 0; i < count; i++)
		held += clients[i].uid == uid;
	return held;
}

static bool may_go(const struct kw_crowd_client *client, uint64_t now_us)
{
	return !client->calls && now_us >= client->since_us + KW_CROWD_YOUNG_US;
}

/* Does one go before the other? Both are of users with as many connections. */
static bool goes_first(const struct kw_crowd_client *one, const struct kw_crowd_client *other)
{
	if (one->subscribed != other->subscribed)
		return !one->subscribed;
	return one->heard_us < other->heard_us;
}

int kw_crowd_victim(
	const struct kw_crowd_client *clients, size_t count, bool operator, uint64_t now_us)
{
	for (int round = 0; round < (operator? 2 : 1); round++) {
		size_t most = 0;
		int victim = -1;

		for (size_t i = 0; i < count; i++) {
			size_t held = held_by(clients, count, clients[i].uid);

			if (held < most || (round == 0 && !may_go(&clients[i], now_us)))
				continue;
			if (held > most || goes_first(&clients[i], &clients[victim]))
				victim = (int)i;
			most = held;
		}
		if (victim >= 0)
			return victim;
	}
	return -1;
}
