/*
 * The function libraries of the primary, for agents that apply them: FUNCTION DUMP into the table.
 *
 *   ┌──────┐ told, connected, ┌─────┐ sent ┌───────┐ answered
 *   │ IDLE │ each minute      │ DUE │─────▶│ ASKED │──────────▶ IDLE
 *   └──────┘─────────────────▶└─────┘      └───────┘
 *                                ▲            │ told meanwhile
 *                       answered │         ┌───────┐ or the server is busy: BUSY, LOADING
 *                                └─────────│ AGAIN │
 *                                          └───────┘
 *   any ── the connection is lost ──▶ IDLE
 *
 * The libraries are small and are read whole. So nothing is derived from commands: each that the
 * feed tells of leads to the same question. The look of each minute finds what none told of.
 *
 * A server that has no library at all, though the table has some, can have lost them: it was killed
 * and came back empty, say. Its functions then stay in the table (HELD), as keys do (brake.h),
 * unless it is known that a command took them: the server had libraries before in this run and
 * history, or the feed told of a FUNCTION FLUSH, which says that none is meant to be there. DELETE
 * and RESTORE explain nothing else: on an empty server they fail, and are counted all the same; and
 * what is deleted can be the cursor of an agent. A set with any library is believed. A server that
 * never had any has an empty set that was only found so: agents do not delete by it.
 *
 * Keys are not affected by anything that happens here. The caller owns the struct. Loop thread
 * only.
 */
#ifndef KW_PROXY_SOURCE_FUNCTIONS_H
#define KW_PROXY_SOURCE_FUNCTIONS_H

#include "base/error.h"
#include "base/sm.h"
#include "feed/feed.h"
#include "fetch/data.h"
#include "redis/server.h"
#include "source/source.h"
#include "table/table.h"

#include <stdbool.h>
#include <stdint.h>

/* What no command told of is found after this. */
#define KW_SOURCE_FUNCTIONS_LOOK_US UINT64_C(60000000)
/* From question to question: a server whose functions change all the time is asked no more often.
 */
#define KW_SOURCE_FUNCTIONS_PAUSE_US UINT64_C(100000)

enum kw_source_functions_state {
	KW_SOURCE_FUNCTIONS_IDLE,
	KW_SOURCE_FUNCTIONS_DUE,
	KW_SOURCE_FUNCTIONS_ASKED,
	KW_SOURCE_FUNCTIONS_AGAIN,
};

/* What came of it. */
enum kw_source_functions_standing {
	KW_SOURCE_FUNCTIONS_OFF,         /* source.functions=false */
	KW_SOURCE_FUNCTIONS_UNKNOWN,     /* the primary has not answered yet */
	KW_SOURCE_FUNCTIONS_CARRIED,     /* the table has what the primary has */
	KW_SOURCE_FUNCTIONS_HELD,        /* the table has what the primary had */
	KW_SOURCE_FUNCTIONS_UNSUPPORTED, /* from here on the table has none: the server knows no
					  * functions
					  */
	KW_SOURCE_FUNCTIONS_REFUSED,     /* it does not answer FUNCTION DUMP */
	KW_SOURCE_FUNCTIONS_UNFIT,       /* they are too large, or not understood */
};

/* Is it known why libraries that the table has are gone at the server? */
enum kw_source_functions_loss {
	KW_SOURCE_FUNCTIONS_LOSS_UNEXPLAINED, /* it is another server, or data set, than the last
						 one */
	KW_SOURCE_FUNCTIONS_LOSS_EXPLAINED,   /* only a command can have taken them, or none is
						 meant to be there */
};

struct kw_source_functions {
	struct kw_sm sm; /* enum kw_source_functions_state */
	struct kw_data_connection *data;
	struct kw_table *table;
	const char *user;                        /* on the server, for sentences */
	const struct kw_server_identity *server; /* as it was looked at last; NULL: not connected */
	enum kw_source_functions_standing standing;
	enum kw_source_functions_loss loss;
	uint64_t asked_us;       /* the last question; 0: none */
	uint64_t questions;      /* that were sent; each has its number, from 1 on */
	uint64_t answered;       /* the last one that brought the set, or why there is none */
	uint64_t libraries;      /* in the table */
	uint64_t cursors;        /* of agents, that the server has beside them */
	uint64_t changes;        /* sets that were published since the proxy began */
	char why[KW_ERROR_TEXT]; /* why they are not carried, or held; "": they are */
};

/* carries: source.functions. The table was made for that. user stays in place. */
void kw_source_functions_init(struct kw_source_functions *functions, bool carries,
	struct kw_data_connection *data, struct kw_table *table, const char *user);

/* The link is up; server: compared with the last one. identity stays in place until down. */
void kw_source_functions_up(struct kw_source_functions *functions, enum kw_feed_server server,
	const struct kw_server_identity *identity);
void kw_source_functions_down(struct kw_source_functions *functions);

/* The feed told of a command that changes libraries. */
void kw_source_functions_told(struct kw_source_functions *functions, enum kw_feed_functions what);

/* The server has another data set now, or another history: what it had before explains nothing. */
void kw_source_functions_doubt(struct kw_source_functions *functions);

/* Ask if it is due. Only while the server may be read. */
void kw_source_functions_turn(struct kw_source_functions *functions, uint64_t now_us);
/* When it needs a turn of its own; UINT64_MAX: never. */
uint64_t kw_source_functions_ready_us(const struct kw_source_functions *functions);

/*
 * Once the question of this number is answered, the table has what was told of until now. What is
 * told of later leads to further questions. So who waits for a number does not wait for ever,
 * however often libraries change.
 */
uint64_t kw_source_functions_question(const struct kw_source_functions *functions);

static inline bool kw_source_functions_has(
	const struct kw_source_functions *functions, uint64_t question)
{
	return functions->answered >= question;
}

/* What is held may go from the table. False: nothing is held. finding: what was approved. */
bool kw_source_functions_approve(
	struct kw_source_functions *functions, char finding[KW_ERROR_TEXT]);

void kw_source_functions_report(
	const struct kw_source_functions *functions, struct kw_source_functions_report *report);

#endif
