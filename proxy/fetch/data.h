/*
 * The data connection, which scan, fetch and watch share. It knows which database is selected, and
 * what to do when the server refuses a command that is needed.
 *
 *   ┌────────┐ open  ┌──────┐ refused, given up  ┌────────┐
 *   │ CLOSED │──────▶│ OPEN │───────────────────▶│ BROKEN │
 *   └────────┘       └──────┘◀───────────────────└────────┘
 *                             open: a new connection
 *
 * Replies come in order: the first question is answered first, whichever part asked. After the
 * connection broke, replies that still arrive must not be used: a DUMP after a refused SELECT reads
 * another database. kw_data_reply turns them into NULL.
 *
 * A server whose script runs for too long answers -BUSY to everything. No asker sees that answer:
 * the question and all after it are asked again once the script has ended, in the same order.
 *
 *   ┌─────────┐ -BUSY  ┌──────────┐ answers to all that  ┌─────────┐ pause over ┌────────┐
 *   │ FLOWING │───────▶│ DRAINING │ was sent: not used ─▶│ RESTING │───────────▶│ ASKING │
 *   └─────────┘        └──────────┘                      └─────────┘◀── -BUSY ──└────────┘
 *        ▲                                                                          │
 *        └────── another answer: the rest of the questions is sent ─────────────────┘
 *
 * ASKING sends one question: the first that has no answer yet. What is asked meanwhile waits.
 *
 * Loop thread only. The caller owns the struct.
 */
#ifndef KW_PROXY_FETCH_DATA_H
#define KW_PROXY_FETCH_DATA_H

#include "base/error.h"
#include "fetch/questions.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_data_state {
	KW_DATA_CLOSED,
	KW_DATA_OPEN,
	KW_DATA_BROKEN,
};

enum kw_data_flow {
	KW_DATA_FLOWING,
	KW_DATA_DRAINING,
	KW_DATA_RESTING,
	KW_DATA_ASKING,
};

struct kw_data_connection {
	struct kw_redis *redis; /* NULL: not connected */
	char user[128];         /* for sentences */
	int64_t selected;       /* database; -1: unknown */
	uint64_t infos;         /* INFO asked for, ever: the server counts them too */
	enum kw_data_state state;
	uint64_t answers; /* that came, ever: the source compares */
	enum kw_data_flow flow;
	struct kw_questions questions; /* without an answer; FLOWING: all of them are sent */
	uint32_t sent;                 /* of them; DRAINING: answers still to come */
	bool strayed;                  /* another database is selected than the first one needs */
	uint64_t pause_us, ask_us;     /* RESTING */
	uint64_t busy_times;           /* ever: who measures time compares before and after */
	uint64_t resumed_us;           /* when it flowed again last */
	bool touching; /* it was told that NO-TOUCH is not permitted: once is enough */
	/* The connection is of no use any more; called once. */
	void (*failed)(void *arg, const struct kw_error *why);
	void *arg;
};

/* A fresh connection: nothing is selected but database 0. */
void kw_data_open(struct kw_data_connection *data, struct kw_redis *redis);

/* After its last answer, before it is freed: questions that were not sent are told NULL. */
void kw_data_closed(struct kw_data_connection *data);

/* As kw_redis_send and kw_redis_words; at most KW_QUESTION_WORDS words; fn is needed. */
void kw_data_send(struct kw_data_connection *data, kw_reply_fn fn, void *arg, int argc,
	const struct kw_slice *argv);
void kw_data_words(struct kw_data_connection *data, kw_reply_fn fn, void *arg, const char *word,
	...) __attribute__((sentinel));

/* Once a loop turn while connected: ask again when the pause is over. */
void kw_data_turn(struct kw_data_connection *data, uint64_t now_us);

/* When it wants the next turn; UINT64_MAX: not by itself. */
uint64_t kw_data_ready_us(const struct kw_data_connection *data);

/* Let the commands that follow work on this database. */
void kw_data_select(struct kw_data_connection *data, uint32_t database);

/*
 * What this connection reads from now on does not count as use of the key (CLIENT NO-TOUCH: from
 * 7.2 on). Otherwise a scan would make every key look used, and eviction would take the hot ones. A
 * user that may not do it is told once, in the log.
 */
void kw_data_no_touch(struct kw_data_connection *data);

/* INFO of one section. All ask through here: watch.c compares the count with the server's. */
void kw_data_info(struct kw_data_connection *data, kw_reply_fn fn, void *arg, const char *section);

/* The connection must be given up, and why. */
void kw_data_fail(struct kw_data_connection *data, enum kw_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * The server answered `command` with an error that only the operator can mend. acl is the rule that
 * the user needs for it ("+scan"); it is mentioned only if the permission is missing.
 */
void kw_data_refused(struct kw_data_connection *data, const char *command, const char *acl,
	const struct kw_reply *reply);

/* The sentence of kw_data_refused alone, for an answer on another connection. */
int kw_data_refusal(struct kw_error *error, const char *user, const char *command, const char *acl,
	const struct kw_reply *reply);

/* What TIME answered, in microseconds; false when it is no such answer. */
bool kw_data_time(const struct kw_reply *reply, int64_t *us);

static inline bool kw_data_is_broken(const struct kw_data_connection *data)
{
	return data->state == KW_DATA_BROKEN;
}

/* The server answers -BUSY. Stays true when the connection breaks meanwhile. */
static inline bool kw_data_is_busy(const struct kw_data_connection *data)
{
	return data->flow != KW_DATA_FLOWING;
}

/* The reply as it counts. Each reply function asks this once, first. */
static inline const struct kw_reply *kw_data_reply(
	struct kw_data_connection *data, const struct kw_reply *reply)
{
	data->answers++;
	return kw_data_is_broken(data) ? NULL : reply;
}

#endif
