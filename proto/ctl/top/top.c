/*
 * top: a live table of a fleet. fleet.c asks the daemons, row.c makes rows of their answers,
 * order.c sorts them, table.c lays them out, screen.c draws them and keys.c reads what is pressed.
 */
#include "base/buffer.h"
#include "base/clock.h"
#include "control/nearest.h"
#include "ctl/top/fleet.h"
#include "ctl/top/order.h"
#include "ctl/top/screen.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_LEAST 0.1
#define INTERVAL_MOST 3600.0
#define DRAW_US 100000  /* between two frames, unless a key was pressed */
#define NAME_LEAST 20   /* columns: rather no keys than no name */
#define FIND_US 2000000 /* between two searches for further sockets */
#define LOOKS_ONCE 2    /* that is how many a rate needs */
#define FOOTER "s/S sort  r reverse  space pause  arrows scroll  q quit"
#define TITLE_BYTES 256

enum { OPTION_ONCE, OPTION_INTERVAL, OPTION_SORT, OPTION_REVERSE };

struct top {
	struct ctl *ctl;
	struct top_fleet fleet;
	struct top_order order;
	bool paused;
	size_t offset;     /* of the first line shown */
	uint64_t drawn_us; /* the last frame */
	uint64_t find_us;  /* further sockets are looked for then; UINT64_MAX: they were named */
};

/* ---- rows ---- */

static json_t *sorted(struct top *top, json_t *(*make)(const struct top_row *row))
{
	json_t *list = json_array();
	size_t count;
	struct top_row **rows = top_fleet_rows(&top->fleet, &count);

	top_order_sort(rows, count, &top->order);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, make(rows[i]));
	free(rows);
	return list;
}

static void put_table(struct top *top, FILE *stream, int columns)
{
	const struct ctl_rows rows = {.stream = stream,
		.columns = columns,
		.least_name = NAME_LEAST,
		.rest = CTL_REST_CUT,
		.names = top_row_names,
		.note = TOP_ROW_NOTE};
	json_t *list = sorted(top, top_row_cells);

	ctl_put_rows(top->ctl, &rows, list);
	json_decref(list);
}

/* ---- once ---- */

static enum ctl_exit print_once(struct top *top)
{
	json_t *list;

	if (top->ctl->json) {
		list = sorted(top, top_row_json);
		ctl_print_json(list);
		json_decref(list);
	} else {
		put_table(top, stdout, isatty(STDOUT_FILENO) ? ctl_columns(stdout) : 0);
	}
	return top_fleet_away(&top->fleet) < top->fleet.count ? CTL_DONE : CTL_FAILED;
}

/* Until each daemon has answered twice, or was found to be away. */
static enum ctl_exit run_once(struct top *top)
{
	struct pollfd fds[TOP_DAEMONS_MAX];

	for (;;) {
		uint64_t now_us = kw_clock_us(), due_us;
		size_t count;

		top_fleet_step(&top->fleet, now_us);
		if (top_fleet_settled(&top->fleet, LOOKS_ONCE))
			return print_once(top);
		due_us = top_fleet_due(&top->fleet);
		count = top_fleet_poll(&top->fleet, fds);
		poll(fds, count, due_us > now_us ? (int)((due_us - now_us) / 1000 + 1) : 0);
	}
}

/* ---- live ---- */

static void title(const struct top *top, char text[TITLE_BYTES])
{
	const time_t now = (time_t)(kw_wall_us() / 1000000);
	size_t count = top_fleet_away(&top->fleet);
	char clock[16] = "", away[40] = "";
	struct tm tm;

	if (gmtime_r(&now, &tm))
		strftime(clock, sizeof clock, "%H:%M:%SZ", &tm);
	if (count > 0)
		snprintf(away, sizeof away, ", %zu away", count);
	snprintf(text, TITLE_BYTES, "keywakectl top  %s  %zu daemons%s  each %.1f s  by %s%s%s",
		clock, top->fleet.count, away, (double)top->fleet.interval_us / 1e6,
		top_column_word(top->order.column), top->order.reversed ? ", reversed" : "",
		top->paused ? "  PAUSED" : "");
}

static void draw(struct top *top)
{
	const struct top_size size = top_screen_size();
	char *body = NULL, text[TITLE_BYTES];
	size_t length = 0;
	FILE *stream = open_memstream(&body, &length);

	top->drawn_us = kw_clock_us();
	top->fleet.changed = false;
	if (!stream)
		return;
	put_table(top, stream, size.columns);
	if (fclose(stream) == 0) {
		title(top, text);
		top->offset = top_screen_draw(&(struct top_frame){text, FOOTER, body, top->offset});
	}
	free(body);
}

static void scroll(struct top *top, bool down, size_t lines)
{
	if (down)
		top->offset += lines; /* the next frame cuts what is too much */
	else
		top->offset -= lines < top->offset ? lines : top->offset;
}

static void sort_by(struct top *top, int step)
{
	int column = ((int)top->order.column + step + TOP_COLUMNS) % TOP_COLUMNS;

	top->order.column = (enum top_column)column;
}

/* False: quit. */
static bool press(struct top *top, enum top_key key)
{
	switch (key) {
	case TOP_KEY_QUIT:
		return false;
	case TOP_KEY_SORT_NEXT:
		sort_by(top, 1);
		break;
	case TOP_KEY_SORT_BACK:
		sort_by(top, -1);
		break;
	case TOP_KEY_REVERSE:
		top->order.reversed = !top->order.reversed;
		break;
	case TOP_KEY_PAUSE:
		top->paused = !top->paused;
		break;
	case TOP_KEY_UP:
	case TOP_KEY_DOWN:
		scroll(top, key == TOP_KEY_DOWN, 1);
		break;
	case TOP_KEY_PAGE_UP:
	case TOP_KEY_PAGE_DOWN:
		scroll(top, key == TOP_KEY_PAGE_DOWN, top_screen_page());
		break;
	case TOP_KEY_FIRST:
		top->offset = 0;
		break;
	case TOP_KEY_LAST:
		top->offset = SIZE_MAX / 2;
		break;
	case TOP_KEY_REDRAW:
	case TOP_KEY_NONE:
		break;
	}
	return true;
}

static bool press_all(struct top *top)
{
	enum top_key key;

	while ((key = top_screen_key()) != TOP_KEY_NONE)
		if (!press(top, key))
			return false;
	return true;
}

static void find_more(struct top *top, uint64_t now_us)
{
	char *sockets[TOP_DAEMONS_MAX];
	struct kw_error ignored;

	if (now_us < top->find_us)
		return;
	top->find_us = now_us + FIND_US;
	top_fleet_find(&top->fleet, sockets,
		ctl_find_sockets(top->ctl, sockets, TOP_DAEMONS_MAX, &ignored));
}

static enum top_woken wait_for_news(struct top *top)
{
	struct pollfd fds[TOP_DAEMONS_MAX + 1];
	uint64_t until_us = UINT64_MAX;
	size_t count = 0;

	if (!top->paused) {
		until_us = top_fleet_due(&top->fleet);
		until_us = top->find_us < until_us ? top->find_us : until_us;
		count = top_fleet_poll(&top->fleet, fds);
	}
	if (top->fleet.changed && top->drawn_us + DRAW_US < until_us)
		until_us = top->drawn_us + DRAW_US;
	return top_screen_wait(fds, count, until_us);
}

static enum ctl_exit run_live(struct top *top)
{
	struct kw_error error;

	if (top_screen_enter(&error)) {
		top_screen_leave();
		return ctl_fail(&error);
	}
	draw(top);
	for (;;) {
		enum top_woken woken;

		if (!top->paused) {
			find_more(top, kw_clock_us());
			top_fleet_step(&top->fleet, kw_clock_us());
		}
		if (top->fleet.changed && kw_clock_us() >= top->drawn_us + DRAW_US)
			draw(top);
		woken = wait_for_news(top);
		if (woken == TOP_WOKEN_BY_END)
			break;
		if (woken == TOP_WOKEN_BY_KEYS && !press_all(top))
			break;
		if (woken != TOP_WOKEN_BY_TIME)
			draw(top);
	}
	top_screen_leave();
	return CTL_DONE;
}

/* ---- the command ---- */

static bool take_sort(struct top *top, const char *word)
{
	struct kw_nearest nearest;
	int column = word ? top_column_parse(word) : TOP_STATE;
	const char *best;

	if (column >= 0) {
		top->order.column = (enum top_column)column;
		return true;
	}
	kw_nearest_init(&nearest, word);
	for (int i = 0; i < TOP_COLUMNS; i++)
		kw_nearest_try(&nearest, top_column_word((enum top_column)i));
	best = kw_nearest_word(&nearest);
	ctl_usage("--sort: no column %.40s%s%s%s (keywakectl top --help names them)", word,
		best ? ": did you mean " : "", best ? best : "", best ? "?" : "");
	return false;
}

static bool take_options(struct top *top)
{
	const struct ctl *ctl = top->ctl;
	double seconds;

	if (!ctl_seconds(ctl, OPTION_INTERVAL, 1, &seconds) ||
		!take_sort(top, ctl->options[OPTION_SORT]))
		return false;
	if (seconds < INTERVAL_LEAST || seconds > INTERVAL_MOST) {
		ctl_usage("--interval: from %.1f to %.0f seconds; given %.40s", INTERVAL_LEAST,
			INTERVAL_MOST, ctl->options[OPTION_INTERVAL]);
		return false;
	}
	top->fleet.interval_us = (uint64_t)(seconds * 1e6);
	top->order.reversed = ctl->options[OPTION_REVERSE] != NULL;
	return true;
}

static bool find_fleet(struct top *top)
{
	const struct ctl *ctl = top->ctl;
	size_t count = (size_t)ctl->arg_count;
	char *sockets[TOP_DAEMONS_MAX];
	struct kw_error error;

	_Static_assert(CTL_ARGS_MAX <= TOP_DAEMONS_MAX, "each argument is a daemon");
	for (size_t i = 0; i < count; i++)
		sockets[i] = kw_strdup(ctl->args[i]);
	top->find_us = count > 0 ? UINT64_MAX : 0;
	if (count == 0)
		count = ctl_find_sockets(ctl, sockets, TOP_DAEMONS_MAX, &error);
	if (count == 0) {
		ctl_fail(&error);
		return false;
	}
	top_fleet_init(&top->fleet, sockets, count, top->fleet.interval_us);
	return true;
}

enum ctl_exit ctl_run_top(struct ctl *ctl)
{
	struct top *top = kw_zalloc(sizeof *top);
	bool live = !ctl->options[OPTION_ONCE] && !ctl->json && isatty(STDIN_FILENO) &&
		    ctl_can_steer(stdout);
	enum ctl_exit status = CTL_FAILED;

	top->ctl = ctl;
	if (take_options(top) && find_fleet(top)) {
		status = live ? run_live(top) : run_once(top);
		top_fleet_close(&top->fleet);
	}
	free(top);
	return status;
}
