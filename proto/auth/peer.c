#include "auth/peer.h"

static bool is_in(const struct kw_peer_users *users, uint32_t uid)
{
	for (int i = 0; i < users->count; i++)
		if (users->uids[i] == uid)
			return true;
	return false;
}

enum kw_peer_user kw_peer_judge(
	const struct kw_peer_users *users, const struct kw_peer_self *self, uint32_t uid)
{
	if (uid == self->uid || uid == 0)
		return KW_PEER_LISTED;
	if (uid == self->overflow)
		return KW_PEER_UNSEEN;
	return is_in(users, uid) ? KW_PEER_LISTED : KW_PEER_UNLISTED;
}

bool kw_peer_users_add(struct kw_peer_users *users, uint32_t uid)
{
	if (is_in(users, uid))
		return true;
	if (users->count == KW_PEER_USERS_MAX)
		return false;
	users->uids[users->count++] = uid;
	return true;
}
