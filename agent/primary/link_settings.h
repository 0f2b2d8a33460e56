/*
 * The settings of the local server that a takeover reads, and the password that remembers them.
 *
 * A replica shows its masterauth to any program that listens where its primary should be. So the
 * agent sets one of its own, whatever there was:
 *
 *   keywake/<repl-diskless-load of before>/<32 random hex digits>
 *   keywake/<repl-diskless-load of before>/tls/<32 random hex digits>   tls-replication was yes
 *
 * It tells any later agent that an agent set it, and what to put back. Pure but for the random
 * bytes; any thread.
 */
#ifndef KW_AGENT_PRIMARY_LINK_SETTINGS_H
#define KW_AGENT_PRIMARY_LINK_SETTINGS_H

#include "primary/replconf.h"
#include "redis/redis.h"

#include <stdbool.h>

#define KW_LINK_SETTING 32

/* As CONFIG GET answers; "": not set, or a server that does not name it. */
struct kw_link_settings {
	char password[KW_LOGIN_TEXT];    /* masterauth */
	char user[KW_LOGIN_TEXT];        /* masteruser */
	char primary[KW_LOGIN_TEXT];     /* replicaof: host and port */
	char diskless[KW_LINK_SETTING];  /* repl-diskless-load */
	char tls[KW_LINK_SETTING];       /* tls-replication: yes or no */
	char databases[KW_LINK_SETTING]; /* how many */
};

/* The words after CONFIG GET, whose reply is wiped (redis/bound.h). */
#define KW_LINK_SETTINGS_NAMES                                                                     \
	"masterauth", "masteruser", "replicaof", "repl-diskless-load", "tls-replication",          \
		"databases"

/* Of an array. NULL, or the name of a setting whose value is too long. Wipe it after use. */
const char *kw_link_settings_read(const struct kw_reply *reply, struct kw_link_settings *settings);
void kw_link_settings_wipe(struct kw_link_settings *settings);

/* What an agent's password remembers. */
struct kw_link_mark {
	char diskless[KW_LINK_SETTING];
	bool tls; /* tls-replication was yes, and an agent has set it to no */
};

/* Is this password an agent's? Then *mark is what it remembers. */
bool kw_link_mark_read(const char *password, struct kw_link_mark *mark);

/* A password that no program has seen before. False: there are no random bytes. */
bool kw_link_mark_write(const struct kw_link_mark *mark, char password[KW_LOGIN_TEXT]);

#endif
