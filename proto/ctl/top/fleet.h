/*
 * The daemons of the table: each is asked again and again, and none is waited for.
 *
 * A daemon has at most one request under way. Its state:
 *
 *            connected                    it said what it is
 *   ┌──────┐ ────────▶ ┌───────────────┐ ──────────────────▶ ┌──────────────┐
 *   │ AWAY │           │ ASKED_VERSION │                     │ ASKED_STATUS │◀─┐
 *   └──────┘           └───────────────┘                     └──────────────┘  │ interval
 *      ▲                                         a proxy │          │ others   │
 *      │ cannot be reached, hung up,                     ▼          ▼          │
 *      │ broke the protocol, refused              ┌──────────────┐  ┌─────────┐│
 *      └───── from each                           │ ASKED_AGENTS │─▶│ RESTING │┘
 *                                                 └──────────────┘  └─────────┘
 *
 * An answer that does not come within TOP_SILENT_US turns the daemon's rows into one that says so.
 * The request stays under way: when the daemon goes on, its answer brings the rows back.
 */
#ifndef KW_CTL_TOP_FLEET_H
#define KW_CTL_TOP_FLEET_H

#include "ctl/top/row.h"

#include <poll.h>

#define TOP_DAEMONS_MAX 64
#define TOP_SILENT_US UINT64_C(2000000)
#define TOP_AGENTS_MAX 4096 /* rows below one proxy */

enum top_link { TOP_AWAY, TOP_ASKED_VERSION, TOP_ASKED_STATUS, TOP_ASKED_AGENTS, TOP_RESTING };

struct top_daemon {
	char *socket;
	char label[TOP_TEXT]; /* its name, or that of its socket until it said one */
	char kind[24];        /* once it said so: "proxy" */

	enum top_link link;           /* moved by fleet.c alone */
	struct kw_rpc_client *client; /* NULL while AWAY */
	uint64_t asked_us;            /* in ASKED_*: since then */
	uint64_t round_us;            /* when all was answered, or a connection was tried */
	uint32_t silent_s;            /* so long no answer came; 0: that is all right */

	json_t *status; /* in ASKED_AGENTS: the answer that waits for the agents */
	struct top_meter meter;
	struct top_meter *meters; /* of its agents */
	size_t meter_count;

	struct top_row *rows; /* itself, and its agents */
	size_t row_count;     /* 0: nothing is known yet */
	uint32_t looks;       /* that were answered whole, since it was reached */
};

struct top_fleet {
	struct top_daemon daemons[TOP_DAEMONS_MAX];
	size_t count;
	uint64_t interval_us;
	bool changed; /* the rows are others; the caller resets it */
};

/* sockets: taken over, each is freed by close. */
void top_fleet_init(struct top_fleet *fleet, char **sockets, size_t count, uint64_t interval_us);
/* More of them, if there is room: those that are not there yet. sockets: as above. */
void top_fleet_find(struct top_fleet *fleet, char **sockets, size_t count);
void top_fleet_close(struct top_fleet *fleet);

/* Take what came, and ask what is due. Never waits. */
void top_fleet_step(struct top_fleet *fleet, uint64_t now_us);

/* When to step again, unless a descriptor is readable before. */
uint64_t top_fleet_due(const struct top_fleet *fleet);
size_t top_fleet_poll(const struct top_fleet *fleet, struct pollfd fds[TOP_DAEMONS_MAX]);

/* Has each daemon answered that many times, or been found away? */
bool top_fleet_settled(const struct top_fleet *fleet, uint32_t looks);
size_t top_fleet_away(const struct top_fleet *fleet);

/*
 * All rows, group by group; the caller frees the list, and uses it before the next step. What a
 * proxy tells of an agent is left out if the agent answers for itself: by kind and name, one row
 * for each that does.
 */
struct top_row **top_fleet_rows(struct top_fleet *fleet, size_t *count);

#endif
