/*
 * The permissions that a user needs, found all at once: the operator gives them with one line, and
 * not one a round.
 *
 * Each is tried in a form without effect: the server looks at permissions before it looks at what
 * the command says, and answers NOPERM. Only if something is lacking, ACL DRYRUN is asked for those
 * that have no such form, which most users may not run. Any other answer is none of a lack: a
 * command that the server does not have, or a server that is busy.
 *
 *   ┌────────┐ begin ┌────────┐ nothing is lacking         ┌──────┐
 *   │ zeroed │──────▶│ TRYING │───────────────────────────▶│ OVER │ done
 *   └────────┘       └────────┘                            └──────┘
 *                         │ something is, and not all    ┌────────┐   ▲
 *                         └─ could be tried ────────────▶│ ASKING │───┘
 *                                                        └────────┘
 *
 * A server without ACL DRYRUN (Redis 6.2), or a user that may not run it, leaves those that cannot
 * be tried unknown. The sentence then gives them, too.
 *
 * The caller owns the struct, and sends: any connection whose replies come in order. Loop thread.
 */
#ifndef KW_REDIS_WANTED_H
#define KW_REDIS_WANTED_H

#include "base/error.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_WANTED_MAX 32                         /* in one table */
#define KW_WANTED_TEXT 448                       /* the longest sentence, with its end */
#define KW_WANTED_WORDS 4                        /* of one form */
#define KW_WANTED_KEY "keywake-permission-check" /* no such key is ever made */

enum kw_wanted_way {
	KW_WANTED_TRIED, /* by its words, which have no effect */
	KW_WANTED_ASKED, /* by ACL DRYRUN alone */
};

struct kw_wanted {
	const char *words[KW_WANTED_WORDS + 1]; /* ended by NULL */
	enum kw_wanted_way way;
	const char *acl; /* "+dump" */
	const char *why; /* "to read values" */
};

enum kw_wanted_state {
	KW_WANTED_IDLE,
	KW_WANTED_TRYING,
	KW_WANTED_ASKING,
	KW_WANTED_OVER,
};

struct kw_wanted_check {
	const struct kw_wanted *wanted;
	size_t count;
	const char *user; /* "": the default user */
	bool thorough;    /* ask for those that cannot be tried even if nothing is lacking */
	/* As kw_redis_send. */
	void (*send)(
		void *arg, kw_reply_fn fn, void *fn_arg, int argc, const struct kw_slice *argv);
	void (*done)(void *arg);
	void *arg;
	bool denied; /* a command was refused already: ask even if no trial shows a lack */

	enum kw_wanted_state state;
	size_t next;      /* whose answer comes next */
	uint32_t lacking; /* a bit each */
	uint32_t unknown; /* … of those that could be neither tried nor asked */
};

/*
 * Send all trials, after the members above the blank line were set. `done` follows, or nothing if
 * the connection is lost. Begin again on each connection.
 */
void kw_wanted_begin(struct kw_wanted_check *check);

static inline bool kw_wanted_any_lacks(const struct kw_wanted_check *check)
{
	return check->lacking != 0 || (check->denied && check->unknown != 0);
}

/*
 * OVER: what is lacking, with the reasons ("+dump to read values, +scan to find keys"), and the
 * rules that give it, with those that are not known (" +dump +scan"). What does not fit is left
 * out.
 */
struct kw_wanted_texts {
	char lacks[KW_WANTED_TEXT];
	char rules[KW_WANTED_TEXT];
};
void kw_wanted_texts(const struct kw_wanted_check *check, struct kw_wanted_texts *texts);

/*
 * OVER, and something is lacking: one sentence that names each of them, and the one line that gives
 * them, with those that are not known. KW_E_REFUSED.
 */
int kw_wanted_sentence(const struct kw_wanted_check *check, struct kw_error *error);

#endif
