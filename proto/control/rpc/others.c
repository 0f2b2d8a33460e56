/*
 * The control socket belongs to the group keywake, and so do keywake's other daemons: they need the
 * group for the sockets of tables. A daemon that was taken over could then export the data of
 * another, or end it. So the users of the other daemons (systemd/keywake.sysusers) are refused, and
 * those of single instances (systemd/own-user.conf).
 */
#include "control/rpc/internal.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PASSWD "/etc/passwd"

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

static bool is_instance(const char *user)
{
	for (int i = 0; i < RPC_OTHERS_MAX; i++) {
		size_t length = strlen(daemons[i]);

		if (strncmp(user, daemons[i], length) == 0)
			return user[length] == '\0' || (user[length] == '-' && user[length + 1]);
	}
	return false;
}

bool rpc_others_listed(const char *file, uid_t peer)
{
	FILE *stream = fopen(file, "re");
	const struct passwd *user = NULL;
	bool found = false;

	for (int i = 0; stream && !found && i < RPC_PASSWD_LINES_MAX; i++) {
		user = fgetpwent(stream);
		if (!user)
			break;
		found = user->pw_uid == peer && is_instance(user->pw_name);
	}
	if (stream)
		fclose(stream);
	return found;
}

bool rpc_others_connected(const struct rpc_others *others, int fd)
{
	struct ucred peer;
	socklen_t length = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
		return false;
	if (rpc_others_has(others, peer.uid, geteuid()))
		return true;
	return peer.uid != 0 && peer.uid != geteuid() && rpc_others_listed(PASSWD, peer.uid);
}
