/*
 * logs: the last lines of a daemon's log, and with -f those that come.
 *
 * This program asks for the lines after the last one it has shown, and the daemon keeps its answer
 * back until there is one. If this program is slow, because its output is, the daemon forgets lines
 * meanwhile. Their number is told in their place.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>
#include <time.h>

#define LINES_DEFAULT 100
#define PREFIX_BYTES 128
#define ESCAPED_BYTES (4 * KW_LOG_TEXT)

enum { OPTION_FOLLOW, OPTION_LINES, OPTION_LEVEL };

struct following {
	struct ctl *ctl;
	json_int_t run, last; /* lines up to this one of that process were shown */
	bool begun;           /* … and were asked for */
	bool away;            /* the daemon is, and that was told */
};

static const char *field_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* ---- a line ---- */

static void show_time(json_int_t us, char text[64])
{
	time_t seconds = (time_t)(us / 1000000);
	char stamp[32];
	struct tm tm;

	if (us < 0 || !gmtime_r(&seconds, &tm) ||
		!strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm))
		strcpy(stamp, "unknown");
	snprintf(text, 64, "%s.%03dZ", stamp, (int)(us / 1000 % 1000));
}

/* Errors are red and warnings yellow; the word stands there, too. */
static const char *level_colour(const struct ctl *ctl, const char *level)
{
	if (strcmp(level, "error") == 0)
		return ctl_mood_colour(ctl, CTL_MOOD_BAD);
	return strcmp(level, "warn") == 0 ? ctl_mood_colour(ctl, CTL_MOOD_PASSING) : "";
}

/* As the daemon writes it to a file. */
static void print_line(const struct ctl *ctl, const json_t *line)
{
	char at[64], level[16], where[PREFIX_BYTES], text[ESCAPED_BYTES];
	const char *colour = level_colour(ctl, field_text(line, "level"));

	show_time(json_integer_value(json_object_get(line, "at_us")), at);
	ctl_show_text(field_text(line, "level"), level, sizeof level);
	ctl_show_text(field_text(line, "where"), where, sizeof where);
	ctl_show_text(field_text(line, "text"), text, sizeof text);
	printf("%s %s%-5s%s %s: %s\n", at, colour, level, *colour ? ctl_colour_end(ctl) : "", where,
		text);
}

static void print_missed(const struct ctl *ctl, json_int_t missed)
{
	json_t *gap;

	if (missed <= 0)
		return;
	if (!ctl->json) {
		printf("(%lld lines of any level are missing here: the daemon has forgotten "
		       "them)\n",
			(long long)missed);
		return;
	}
	gap = json_pack("{s:I}", "missed", missed);
	ctl_print_json(gap);
	json_decref(gap);
}

static void print_answer(const struct ctl *ctl, const json_t *answer)
{
	const json_t *lines = json_object_get(answer, "lines");

	print_missed(ctl, json_integer_value(json_object_get(answer, "missed")));
	for (size_t i = 0; i < json_array_size(lines); i++)
		if (ctl->json)
			ctl_print_json(json_array_get(lines, i));
		else
			print_line(ctl, json_array_get(lines, i));
	fflush(stdout);
}

/* ---- the next ones ---- */

static json_t *params_of(const struct following *following, json_int_t count)
{
	const char *level = following->ctl->options[OPTION_LEVEL];
	json_t *params = json_object();

	if (level)
		json_object_set_new(params, "level", json_string(level));
	if (!following->begun) {
		json_object_set_new(params, "count", json_integer(count));
		return params;
	}
	json_object_set_new(params, "after", json_integer(following->last));
	json_object_set_new(params, "run", json_integer(following->run));
	json_object_set_new(params, "wait", json_true());
	return params;
}

static void take(struct following *following, const json_t *answer)
{
	json_int_t run = json_integer_value(json_object_get(answer, "run"));

	if (following->begun && run != following->run)
		fprintf(stderr, "keywakectl: %s: the daemon was started again\n",
			following->ctl->socket);
	following->run = run;
	following->last = json_integer_value(json_object_get(answer, "last"));
	following->begun = true;
	following->away = false;
	print_answer(following->ctl, answer);
}

static void tell_away(void *arg, const struct kw_error *error)
{
	struct following *following = arg;

	if (!following->away)
		ctl_fail(error);
	following->away = true;
}

/* The connection broke: until the daemon is there again, or was away for too long. */
static int come_back(struct following *following, struct kw_error *error)
{
	json_t *version;
	int code = ctl_call_patiently(
		following->ctl, "version", UINT64_MAX, tell_away, following, &version, error);

	if (!code)
		json_decref(version);
	return code;
}

static int follow(struct following *following, struct kw_error *error)
{
	for (;;) {
		json_t *answer;
		int code = ctl_call(
			following->ctl, "log.lines", params_of(following, 0), -1, &answer, error);

		if (code == KW_E_IO || code == KW_E_STATE) {
			tell_away(following, error);
			code = come_back(following, error);
			if (code)
				return code;
			continue;
		}
		if (code)
			return code;
		take(following, answer);
		json_decref(answer);
		if (ferror(stdout))
			return 0;
	}
}

enum ctl_exit ctl_run_logs(struct ctl *ctl)
{
	struct following following = {.ctl = ctl};
	const char *level = ctl->options[OPTION_LEVEL], *lines = ctl->options[OPTION_LINES];
	json_int_t count = LINES_DEFAULT;
	struct kw_error error;
	json_t *answer;

	if (lines && !ctl_number("-n", lines, &count))
		return CTL_FAILED;
	if (level && kw_log_level_parse(level) < 0)
		return ctl_usage(
			"--level: expected error, warn, info, debug or trace; given %.40s", level);
	if (ctl_call(ctl, "log.lines", params_of(&following, count), CTL_CALL_TIMEOUT_MS, &answer,
		    &error))
		return ctl_fail(&error);
	/* To the daemon 0 means all. */
	if (count == 0)
		json_array_clear(json_object_get(answer, "lines"));
	take(&following, answer);
	json_decref(answer);
	if (ctl->options[OPTION_FOLLOW] && follow(&following, &error))
		return ctl_fail(&error);
	return CTL_DONE;
}
