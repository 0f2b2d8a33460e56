/* wait, watch: following a daemon's state. */
#include "ctl/ctl.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLL_FIRST_US 5000 /* the first pause; each one is twice as long, up to … */
#define POLL_US 50000
#define BARRIER_MS 2000 /* a daemon that does not answer for so long is asked again */
#define WAIT_MS 200     /* so long it may keep its answer back, until the barrier has passed */
#define DRAW_US 200000

static const char *field_text(const json_t *status, const char *name)
{
	const char *text = json_string_value(json_object_get(status, name));

	return text ? text : "";
}

static double field_number(const json_t *status, const char *name)
{
	return json_number_value(json_object_get(status, name));
}

static void nap_until(uint64_t moment_us, uint64_t at_most_us)
{
	uint64_t now = kw_clock_us();
	uint64_t us = moment_us > now ? moment_us - now : 0;
	struct timespec pause;

	if (us > at_most_us)
		us = at_most_us;
	pause = (struct timespec){(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
	nanosleep(&pause, NULL);
}

static void look(struct ctl_pace *pace, const json_t *status)
{
	bool proxy = json_object_get(status, "dirty_keys") != NULL;

	ctl_pace_look(pace, field_number(status, "progress"),
		field_number(status, proxy ? "version" : "keys_applied"),
		field_number(status, "bytes_read"));
}

/* "bootstrapping [###---] 43 %  12 s left  1,234 keys/s" */
static void compose_progress(const json_t *status, const struct ctl_pace *pace, char line[CTL_LINE])
{
	char text[KW_ERROR_TEXT];
	size_t at = ctl_add(line, 0, "", field_text(status, "state"), " ");

	at = ctl_pace_compose(pace, line, at);
	if (*field_text(status, "reason"))
		ctl_add(line, at, "  ",
			ctl_show_text(field_text(status, "reason"), text, sizeof text), "");
}

/* "warm  lag 0.3 ms  behind 0  1,234 keys/s" */
static void compose_steady(const json_t *status, const struct ctl_pace *pace, char line[CTL_LINE])
{
	static const struct {
		const char *field, *label;
	} parts[] = {
		{"lag_ms", "  lag "},
		{"lag_versions", "  behind "},
		{"version", "  version "},
		{"keys", "  keys "},
		{"dirty_keys", "  dirty "},
		{"agents", "  agents "},
		{"keys_applied", "  applied "},
		{"quarantined", "  quarantined "},
	};
	char text[KW_ERROR_TEXT], cell[CTL_CELL];
	size_t at = ctl_add(
		line, 0, "", ctl_show_text(field_text(status, "state"), text, sizeof text), "");

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		const json_t *value = json_object_get(status, parts[i].field);

		if (json_is_number(value))
			at = ctl_add(line, at, parts[i].label,
				ctl_show_value(parts[i].field, value, cell), "");
	}
	if (pace->keys.per_second >= 1)
		at = ctl_add(line, at, "  ",
			ctl_show_count(pace->keys.per_second, text, sizeof text), "/s");
	if (*field_text(status, "reason"))
		ctl_add(line, at, "  (",
			ctl_show_text(field_text(status, "reason"), text, sizeof text), ")");
}

static bool in_progress(const json_t *status)
{
	const json_t *progress = json_object_get(status, "progress");
	const char *state = field_text(status, "state");

	if (!json_is_number(progress) || json_number_value(progress) >= 1)
		return false;
	return strcmp(state, "bootstrapping") == 0 || strcmp(state, "scanning") == 0 ||
	       strcmp(state, "reconciling") == 0;
}

static void draw_status(const json_t *status, struct ctl_pace *pace)
{
	char line[CTL_LINE];

	look(pace, status);
	if (in_progress(status))
		compose_progress(status, pace, line);
	else
		compose_steady(status, pace, line);
	ctl_line_draw(line);
}

static void draw_away(void *arg, const struct kw_error *error)
{
	char text[CTL_LINE];

	ctl_line_draw(ctl_show_text(error->text, text, sizeof text));
}

/*
 * How it is known that earlier writes are in. The daemon issues a token, and says when it has
 * passed. A daemon of before, or an agent with a proxy of before, can only compare clocks.
 */
enum barrier {
	BARRIER_UNKNOWN, /* the daemon has not answered yet */
	BARRIER_WAITS,
	BARRIER_PASSED,
	BARRIER_BY_CLOCK,
};

/* Progress goes to standard error, so that standard output holds the answer alone. */
struct waiting {
	const char *state; /* the one waited for */
	uint64_t deadline_us;
	enum barrier barrier;
	json_int_t token;  /* 0: none was issued yet */
	int wait_ms;       /* it may keep its answer back; 0: one of before cannot */
	uint64_t fresh_us; /* BY_CLOCK: the daemon's fresh_us must have reached this */
	bool local_clock;  /* … and is of this host's clock */
	json_t *status;    /* the last one */
	struct ctl_pace pace;
};

/* Is this the socket of a daemon that can come into that state at all? */
static int check_daemon(struct ctl *ctl, struct waiting *waiting, struct kw_error *error)
{
	const char *wanted = waiting->local_clock ? "-proxy" : "-agent";
	const char *other = waiting->local_clock ? "-agent" : "-proxy";
	char program[64];
	size_t length;
	int code = ctl_program(ctl, waiting->deadline_us, program, error);

	if (code)
		return code;
	length = strlen(program);
	if (length >= 6 && strcmp(program + length - 6, other) == 0)
		return kw_error_set(error, KW_E_ARGUMENT,
			"%s: a %s answers there, which is never %s: name the socket of a keywake%s",
			ctl->socket, program, waiting->state, wanted);
	return 0;
}

static int at_most_ms(const struct waiting *waiting, int ms)
{
	uint64_t now_us = kw_clock_us();
	uint64_t left_us = waiting->deadline_us > now_us ? waiting->deadline_us - now_us : 0;

	return left_us < (uint64_t)ms * 1000 ? (int)(left_us / 1000) + 1 : ms;
}

/* The answer; NULL: there was none, and *code says why. */
static json_t *ask_barrier(struct ctl *ctl, const struct waiting *waiting, int *code)
{
	json_t *params = json_pack("{s:I}", "token", waiting->token), *answer = NULL;
	struct kw_error error;

	if (waiting->wait_ms > 0)
		json_object_set_new(
			params, "wait_ms", json_integer(at_most_ms(waiting, waiting->wait_ms)));
	*code = ctl_call(ctl, "barrier", params, at_most_ms(waiting, BARRIER_MS), &answer, &error);
	return *code ? NULL : answer;
}

/* A daemon that is away for a moment is asked again. After a restart it issues another token. */
static void look_at_barrier(struct ctl *ctl, struct waiting *waiting)
{
	json_t *answer, *passed;
	int code;

	answer = ask_barrier(ctl, waiting, &code);
	if (code == KW_E_REFUSED && waiting->wait_ms > 0) {
		waiting->wait_ms = 0;
		answer = ask_barrier(ctl, waiting, &code);
	}
	if (code == KW_E_REFUSED)
		waiting->barrier = BARRIER_BY_CLOCK;
	if (!answer)
		return;
	waiting->token = json_integer_value(json_object_get(answer, "token"));
	passed = json_object_get(answer, "passed");
	if (json_is_boolean(passed))
		waiting->barrier = json_is_true(passed) ? BARRIER_PASSED : BARRIER_WAITS;
	else
		waiting->barrier = BARRIER_BY_CLOCK;
	json_decref(answer);
}

/* The proxy's clock says fresh_us; clock_skew_us is that clock less ours. */
static bool passed_by_clock(const struct waiting *waiting)
{
	const json_t *status = waiting->status;
	int64_t fresh = json_integer_value(json_object_get(status, "fresh_us"));
	int64_t skew = json_integer_value(json_object_get(status, "clock_skew_us"));

	if (waiting->local_clock)
		skew = 0;
	return fresh > 0 && fresh >= (int64_t)waiting->fresh_us + skew;
}

/*
 * In the state, and every write done before this command started is in. The barrier was looked at
 * before the state: a state of before it passed would prove nothing.
 */
static bool reached(const struct waiting *waiting)
{
	if (strcmp(field_text(waiting->status, "state"), waiting->state) != 0)
		return false;
	if (waiting->barrier == BARRIER_BY_CLOCK)
		return passed_by_clock(waiting);
	return waiting->barrier == BARRIER_PASSED;
}

static enum ctl_exit waited_in_vain(const struct ctl *ctl, const struct waiting *waiting)
{
	const char *state = field_text(waiting->status, "state");
	const char *reason = field_text(waiting->status, "reason");
	struct kw_error error;

	if (strcmp(state, waiting->state) == 0)
		reason = "but what was written before this command started is not known to be in";
	kw_error_set(&error, KW_E_TIMEOUT, "not %s within %s s: state %s%s%s", waiting->state,
		ctl->options[0], state, *reason ? ": " : "", reason);
	return ctl_fail(&error);
}

static enum ctl_exit wait_loop(struct ctl *ctl, struct waiting *waiting)
{
	struct kw_error error;
	uint64_t drawn_us = 0, pause_us = POLL_FIRST_US;

	for (;;) {
		json_t *status;
		int code;

		if (waiting->barrier != BARRIER_PASSED)
			look_at_barrier(ctl, waiting);
		code = ctl_call_patiently(
			ctl, "status", waiting->deadline_us, draw_away, NULL, &status, &error);
		if (code == KW_E_TIMEOUT && waiting->status) {
			ctl_line_end(false);
			return waited_in_vain(ctl, waiting);
		}
		if (code) {
			ctl_line_end(false);
			return ctl_fail(&error);
		}
		json_decref(waiting->status);
		waiting->status = status;
		if (reached(waiting))
			return CTL_DONE;
		if (kw_clock_us() >= waiting->deadline_us) {
			ctl_line_end(false);
			return waited_in_vain(ctl, waiting);
		}
		if (kw_clock_us() - drawn_us >= DRAW_US) {
			draw_status(status, &waiting->pace);
			drawn_us = kw_clock_us();
		}
		nap_until(waiting->deadline_us, pause_us);
		pause_us = pause_us * 2 < POLL_US ? pause_us * 2 : POLL_US;
	}
}

enum ctl_exit ctl_run_wait(struct ctl *ctl)
{
	struct waiting waiting = {
		.deadline_us = UINT64_MAX, .wait_ms = WAIT_MS, .fresh_us = ctl->started_us};
	uint64_t started_us = kw_clock_us();
	struct kw_error error;
	enum ctl_exit status;
	double seconds;
	char text[64];

	waiting.state = strchr(ctl->command->name, ' ') + 1;
	waiting.local_clock = strcmp(waiting.state, "live") == 0;
	if (!ctl_seconds(ctl, 0, 0, &seconds))
		return CTL_FAILED;
	if (ctl->options[0])
		waiting.deadline_us = started_us + (uint64_t)(seconds * 1e6);
	if (isatty(STDERR_FILENO))
		ctl_line_begin(stderr);
	if (check_daemon(ctl, &waiting, &error)) {
		ctl_line_end(false);
		return ctl_fail(&error);
	}
	status = wait_loop(ctl, &waiting);
	ctl_line_end(false);
	if (status == CTL_DONE && ctl->json)
		ctl_print_json(waiting.status);
	else if (status == CTL_DONE)
		printf("%s%s%s after %s\n", ctl_state_colour(ctl, waiting.state), waiting.state,
			ctl_colour_end(ctl),
			ctl_show_us((double)(kw_clock_us() - started_us), text, sizeof text));
	json_decref(waiting.status);
	return status;
}

static bool watch_count(const struct ctl *ctl, long *count)
{
	char *end;

	*count = -1;
	if (!ctl->options[0])
		return true;
	*count = strtol(ctl->options[0], &end, 10);
	if (end != ctl->options[0] && *end == '\0' && *count > 0)
		return true;
	ctl_usage("--count: expected a number above 0; given %.40s", ctl->options[0]);
	return false;
}

enum ctl_exit ctl_run_watch(struct ctl *ctl)
{
	struct ctl_pace pace = {0};
	struct kw_error error;
	double seconds;
	long count;

	if (!watch_count(ctl, &count) ||
		!ctl_seconds(ctl, 1, isatty(STDOUT_FILENO) && !ctl->json ? 0.2 : 1, &seconds))
		return CTL_FAILED;
	if (!ctl->json)
		ctl_line_begin(stdout);
	for (uint64_t next_us = kw_clock_us();; nap_until(next_us, UINT64_MAX)) {
		json_t *status;

		if (ctl_call_patiently(
			    ctl, "status", UINT64_MAX, draw_away, NULL, &status, &error)) {
			ctl_line_end(true);
			return ctl_fail(&error);
		}
		if (ctl->json)
			ctl_print_json(status);
		else
			draw_status(status, &pace);
		json_decref(status);
		if (ferror(stdout))
			return CTL_FAILED;
		if (count > 0 && --count == 0)
			break;
		next_us += (uint64_t)(seconds * 1e6);
		/* Looks that were missed (the daemon was away, Ctrl-Z) are not repeated. */
		if (next_us < kw_clock_us())
			next_us = kw_clock_us();
	}
	ctl_line_end(true);
	return CTL_DONE;
}
