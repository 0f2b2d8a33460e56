/*
 * A row of the table: what a daemon says of itself, or a proxy of one of its agents. Pure.
 *
 *   column    proxy                gateway                agent           agent, told by its proxy
 *   lag       -                    -                      lag_ms          lag_ms
 *   fresh     age of fresh_us      age_ms                 age of fresh_us -
 *   records   version, a second    gets, a second         keys_applied    applied, a second
 *   bytes     table.written_bytes  bytes_out              bytes_read      bytes
 *   keys      keys                 -                      local.keys      -
 */
#ifndef KW_CTL_TOP_ROW_H
#define KW_CTL_TOP_ROW_H

#include "ctl/ctl.h"

/* In the order of the table. */
enum top_column {
	TOP_NAME,
	TOP_KIND,
	TOP_STATE,
	TOP_LAG,
	TOP_FRESH,
	TOP_RECORDS,
	TOP_BYTES,
	TOP_KEYS,
	TOP_CODE,
	TOP_COLUMNS,
};
#define TOP_FIRST_FIGURE TOP_LAG
#define TOP_FIGURES (TOP_KEYS - TOP_LAG + 1)

/* As --sort has it: "lag". */
const char *top_column_word(enum top_column column);
int top_column_parse(const char *word); /* -1: there is none */

struct top_figure {
	enum { TOP_NONE, TOP_UNKNOWN, TOP_KNOWN } is; /* this kind of row has none; not known now */
	double value;
};

#define TOP_TEXT 128 /* a longer text of a daemon is cut */

struct top_row {
	size_t group; /* of the rows of one daemon: itself first, then its agents */
	bool below;   /* an agent, told by its proxy */
	char name[TOP_TEXT], kind[TOP_TEXT], state[TOP_TEXT], code[TOP_TEXT];
	char reason[KW_ERROR_TEXT];
	const char *of;     /* of an agent: the name of its proxy, in that row */
	const char *socket; /* the one that told it */
	enum ctl_mood mood; /* of the state */
	struct top_figure figures[TOP_FIGURES];
	const struct top_row *lead; /* of its group, in the last order (order.h) */
};

/* Counters at two looks make rates. Zeroed: none yet. */
struct top_meter {
	json_int_t id;         /* of a session; 0: of a daemon itself */
	uint64_t at_us;        /* of the last look, monotonic */
	double records, bytes; /* then; NAN: not told */
	struct top_figure records_rate, bytes_rate;
};

struct top_moment {
	uint64_t clock_us, wall_us;
};

/*
 * From the answer to status. kind: "proxy", "agent" or "gateway"; label: its name if it does not
 * say one.
 */
void top_row_daemon(struct top_row *row, const char *kind, const char *label, const json_t *status,
	const struct top_moment *now, struct top_meter *meter);

/* From an entry of the answer to agents.list. */
void top_row_agent(struct top_row *row, const struct top_row *proxy, const json_t *session,
	const struct top_moment *now, struct top_meter *meter);

/* A daemon that tells nothing, and why. */
void top_row_away(struct top_row *row, const char *kind, const char *label, const char *sentence);

/* As an object of a JSON list, and as one for ctl_put_rows with top_row_names and top_row_note. */
json_t *top_row_json(const struct top_row *row);
json_t *top_row_cells(const struct top_row *row);
extern const char *const top_row_names[];
#define TOP_ROW_NOTE "note"

#endif
