/*
 * Users of this host, by name and by uid: for judging the other end of a unix socket (auth/peer.h).
 * Reads the host's user database, which can block: at start only.
 */
#ifndef KW_REMOTE_USERS_H
#define KW_REMOTE_USERS_H

#include "auth/peer.h"
#include "base/error.h"

#include <sys/types.h>

/* Can it be a user: a name, or a uid in digits? KW_E_CONFIG; the host need not know the name. */
int kw_user_check(const char *text, struct kw_error *error);

/*
 * Add a user. A name that this host does not know adds nobody: the list names the users of daemons
 * that need not be installed. KW_E_CONFIG: it can be no user, or the list is full.
 */
int kw_users_add(struct kw_peer_users *users, const char *text, struct kw_error *error);

/* This process, as it judges others. */
struct kw_peer_self kw_user_self(void);

/* The user at the other end of a unix socket; of a socket we connected, who listens there. */
uid_t kw_user_of(int fd, pid_t *pid);

#endif
