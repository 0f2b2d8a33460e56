#include "remote/users.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME_MAX_BYTES 255
#define OVERFLOW_UID 65534 /* where /proc does not tell */

/* True: the text is a number, and *uid is it. (uid_t)-1 means "no user" to the system. */
static bool parse_uid(const char *text, uid_t *uid)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long value;

	if (digits == 0 || digits > 10 || text[digits])
		return false;
	value = strtoul(text, NULL, 10);
	*uid = (uid_t)value;
	return value < UINT32_MAX;
}

int kw_user_check(const char *text, struct kw_error *error)
{
	uid_t uid;

	if (parse_uid(text, &uid))
		return KW_OK;
	if (*text == '\0' || strlen(text) > NAME_MAX_BYTES || strspn(text, "0123456789") > 0 ||
		strpbrk(text, " \t\n:/"))
		return kw_error_set(error, KW_E_CONFIG,
			"\"%s\" is no user: write a name, like keywake-agent, or a uid", text);
	return KW_OK;
}

int kw_users_add(struct kw_peer_users *users, const char *text, struct kw_error *error)
{
	const struct passwd *entry;
	uid_t uid;

	if (kw_user_check(text, error))
		return KW_E_CONFIG;
	if (!parse_uid(text, &uid)) {
		entry = getpwnam(text);
		if (!entry)
			return KW_OK;
		uid = entry->pw_uid;
	}
	if (!kw_peer_users_add(users, uid))
		return kw_error_set(error, KW_E_CONFIG, "more than %d users", KW_PEER_USERS_MAX);
	return KW_OK;
}

struct kw_peer_self kw_user_self(void)
{
	struct kw_peer_self self = {.uid = geteuid(), .overflow = OVERFLOW_UID};
	FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
	unsigned overflow;

	if (file && fscanf(file, "%u", &overflow) == 1)
		self.overflow = overflow;
	if (file)
		fclose(file);
	return self;
}

uid_t kw_user_of(int fd, pid_t *pid)
{
	struct ucred who = {.uid = (uid_t)-1};
	socklen_t length = sizeof who;

	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length);
	if (pid)
		*pid = who.pid;
	return who.uid;
}
