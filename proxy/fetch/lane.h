/*
 * The lane: the data connection as scan, fetch and watch share it. It knows which database is
 * selected, and what to do when the server refuses a command that is needed.
 *
 * Replies come in order, so what was asked first is answered first, whoever asked. Once the lane is
 * broken, replies that still arrive say nothing any more (a DUMP behind a SELECT that was refused
 * reads another database): kw_lane_reply turns them into NULL.
 *
 * Loop thread only. The caller owns the struct.
 */
#ifndef KW_PROXY_FETCH_LANE_H
#define KW_PROXY_FETCH_LANE_H

#include "base/error.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_lane {
	struct kw_redis *redis; /* NULL: not connected */
	char user[128];         /* for sentences */
	int64_t selected;       /* database; -1: unknown */
	uint64_t infos;         /* INFO asked for, ever: the server counts them too */
	bool broken;
	bool heard; /* an answer came; whoever waits for that sets it back */
	/* The connection is of no use any more; called once. */
	void (*failed)(void *arg, const struct kw_error *why);
	void *arg;
};

/* A fresh connection: nothing is selected but database 0. */
void kw_lane_open(struct kw_lane *lane, struct kw_redis *redis);

/* Let the commands that follow work on this database. */
void kw_lane_select(struct kw_lane *lane, uint32_t database);

/* INFO of one section. Everybody asks through here: watch.c compares the count with the server's.
 */
void kw_lane_info(struct kw_lane *lane, kw_reply_fn fn, void *arg, const char *section);

/* The connection has to be given up, and why. */
void kw_lane_fail(struct kw_lane *lane, enum kw_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * The server answered `command` with an error that only somebody else can mend. acl is the rule
 * that the user needs for it ("+scan"); for other errors than a missing permission it is not
 * mentioned.
 */
void kw_lane_refused(
	struct kw_lane *lane, const char *command, const char *acl, const struct kw_reply *reply);

/* The sentence of kw_lane_refused alone, for whoever has another connection. */
int kw_lane_refusal(struct kw_error *error, const char *user, const char *command, const char *acl,
	const struct kw_reply *reply);

/* What TIME answered, in microseconds; false when it is no such answer. */
bool kw_lane_time(const struct kw_reply *reply, int64_t *us);

/* The reply as it counts, to be asked once by everyone who is answered. */
static inline const struct kw_reply *kw_lane_reply(
	struct kw_lane *lane, const struct kw_reply *reply)
{
	lane->heard = true;
	return lane->broken ? NULL : reply;
}

#endif
