/*
 * The control socket belongs to the group keywake, and so do keywake's other daemons: they need the
 * group for the sockets of tables. A daemon that was taken over could then export the data of
 * another, or end it. So the users of the other daemons (systemd/keywake.sysusers) are refused.
 */
#include "control/rpc/internal.h"

#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const daemons[RPC_OTHERS_MAX] = {
	"keywake-proxy",
	"keywake-agent",
	"keywake-gateway",
};

void rpc_others_find(struct rpc_others *others)
{
	others->count = 0;
	for (int i = 0; i < RPC_OTHERS_MAX; i++) {
		const struct passwd *user = getpwnam(daemons[i]);

		if (user)
			others->uids[others->count++] = user->pw_uid;
	}
}

bool rpc_others_has(const struct rpc_others *others, uid_t peer, uid_t own)
{
	for (int i = 0; i < others->count; i++)
		if (others->uids[i] == peer)
			return peer != own;
	return false;
}

bool rpc_others_connected(const struct rpc_others *others, int fd)
{
	struct ucred peer;
	socklen_t length = sizeof peer;

	return others->count > 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       rpc_others_has(others, peer.uid, geteuid());
}
