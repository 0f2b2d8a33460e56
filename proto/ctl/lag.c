/*
 * explain lag: where the time goes between a write at the primary and its acknowledgement at the
 * replica. A proxy knows the first half of the stages, an agent the second one.
 *
 *   -s SOCKET ──lag──▶ one half ─┐
 *   [SOCKET]  ──lag──▶ the other ┴─▶ the table, the largest stages, and what shortens each
 *
 * Without [SOCKET] the other half is looked for among the sockets beside the first. Two halves
 * belong together if they are of one table: it has one epoch.
 */
#include "ctl/ctl.h"

#include <glob.h>
#include <string.h>

#define SOCKETS_MOST 64
#define BESIDE_MS 1000   /* a neighbour that does not answer must not hold us up */
#define LEAST_SAMPLES 20 /* of fewer a 99th percentile says nothing */

enum half { PROXY, AGENT, HALVES };

static const char *const half_names[] = {"proxy", "agent"};

struct report {
	json_t *halves[HALVES]; /* NULL: not known */
	enum half first;        /* that of -s */
	bool failed;            /* the other one was named, and did not answer */
	char missing[KW_ERROR_TEXT];
};

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* Which half an answer is: each has a stage that the other lacks. */
static enum half half_of(const json_t *answer)
{
	const json_t *row = json_array_get(json_object_get(answer, "stages"), 0);

	return strcmp(text_of(row, "stage"), "primary") == 0 ? PROXY : AGENT;
}

enum recent { KEEP, RESET };

static int ask(struct ctl *ctl, enum recent recent, int timeout_ms, json_t **answer,
	struct kw_error *error)
{
	json_t *params = recent == RESET ? json_pack("{s:b}", "reset", 1) : NULL;

	return ctl_call(ctl, "lag", params, timeout_ms, answer, error);
}

/* The same of another daemon; its connection does not stay. */
static int ask_other(const struct ctl *ctl, const char *socket, enum recent recent, int timeout_ms,
	json_t **answer, struct kw_error *error)
{
	struct ctl other = *ctl;
	int code;

	other.socket = socket;
	other.client = NULL;
	code = ask(&other, recent, timeout_ms, answer, error);
	kw_rpc_client_close(other.client);
	return code;
}

static bool is_one_table(const json_t *a, const json_t *b)
{
	return json_integer_value(json_object_get(a, "epoch")) ==
	       json_integer_value(json_object_get(b, "epoch"));
}

static enum half other_half(const struct report *report)
{
	return report->first == PROXY ? AGENT : PROXY;
}

static bool belongs(const struct report *report, const json_t *answer)
{
	return half_of(answer) == other_half(report) &&
	       is_one_table(answer, report->halves[report->first]);
}

/* The other half is shown: its figures begin anew, if that is wanted. */
static void begin_anew(const struct ctl *ctl, const char *socket)
{
	struct kw_error ignored;

	if (ctl->options[0])
		(void)ask_other(ctl, socket, RESET, BESIDE_MS, NULL, &ignored);
}

static void ask_named(const struct ctl *ctl, struct report *report, const char *socket)
{
	struct kw_error error;
	json_t *answer;

	report->failed = true;
	if (ask_other(ctl, socket, KEEP, CTL_CALL_TIMEOUT_MS, &answer, &error)) {
		snprintf(report->missing, sizeof report->missing, "%s", error.text);
		return;
	}
	if (belongs(report, answer)) {
		report->halves[other_half(report)] = answer;
		report->failed = false;
		begin_anew(ctl, socket);
		return;
	}
	if (half_of(answer) == report->first)
		snprintf(report->missing, sizeof report->missing,
			"%.200s is the socket of a second %s: name that of the %s", socket,
			half_names[report->first], half_names[other_half(report)]);
	else
		snprintf(report->missing, sizeof report->missing,
			"the agent does not read the table of this proxy: %.200s is the socket of "
			"another pair",
			socket);
	json_decref(answer);
}

/* "/run/keywake/agent-a.sock": all sockets of that folder. False: it is too long a name. */
static bool find_beside(const char *socket, glob_t *found)
{
	const char *slash = strrchr(socket, '/');
	char pattern[256];
	int length = snprintf(pattern, sizeof pattern, "%.*s*.sock",
		slash ? (int)(slash - socket) + 1 : 0, socket);

	return length < (int)sizeof pattern && glob(pattern, 0, NULL, found) == 0;
}

/* The sockets of the other half that belong to the first; *match: one of them. */
static int look_at(const struct ctl *ctl, struct report *report, const glob_t *found, size_t *match)
{
	int matches = 0;

	for (size_t i = 0; i < found->gl_pathc && i < SOCKETS_MOST; i++) {
		struct kw_error ignored;
		json_t *answer;

		if (strcmp(found->gl_pathv[i], ctl->socket) == 0 ||
			ask_other(ctl, found->gl_pathv[i], KEEP, BESIDE_MS, &answer, &ignored))
			continue;
		if (belongs(report, answer) && matches++ == 0) {
			report->halves[other_half(report)] = json_incref(answer);
			*match = i;
		}
		json_decref(answer);
	}
	return matches;
}

static void look_beside(const struct ctl *ctl, struct report *report)
{
	enum half other = other_half(report);
	glob_t found = {0};
	size_t match = 0;
	int matches = 0;

	if (find_beside(ctl->socket, &found))
		matches = look_at(ctl, report, &found, &match);
	if (matches == 1)
		begin_anew(ctl, found.gl_pathv[match]);
	globfree(&found);
	if (matches == 1)
		return;
	json_decref(report->halves[other]);
	report->halves[other] = NULL;
	snprintf(report->missing, sizeof report->missing,
		matches > 1 ? "the sockets of more than one %s that belong to this one are beside "
			      "it: name one, as in: keywakectl -s %.200s explain lag SOCKET"
			    : "the stages of the %s are not known here: name its control socket, "
			      "as in: keywakectl -s %.200s explain lag SOCKET",
		half_names[other], ctl->socket);
}

/* ---- what is shown ---- */

static json_t *rows_of(const struct report *report)
{
	json_t *rows = json_array(), *row;
	size_t i;

	for (int half = PROXY; half < HALVES; half++)
		json_array_foreach(json_object_get(report->halves[half], "stages"), i, row)
		{
			json_object_set_new(row, "at", json_string(half_names[half]));
			json_array_append(rows, row);
		}
	return rows;
}

/* Barriers pass through the first stage, also while nothing changes. */
static bool has_changes(const json_t *rows)
{
	const json_t *row;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)rows, i,
		row) if (strcmp(text_of(row, "stage"), "primary") != 0 &&
			 json_integer_value(json_object_get(row, "samples")) > 0) return true;
	return false;
}

/* The stage with the largest figure of that name; NULL: none has one, or nothing has changed. */
static const json_t *largest(const json_t *rows, const char *figure, json_int_t least_samples)
{
	const json_t *best = NULL, *row;
	size_t i;

	if (!has_changes(rows))
		return NULL;
	json_array_foreach((json_t *)(uintptr_t)rows, i, row)
	{
		json_int_t us = json_integer_value(json_object_get(row, figure));

		if (json_integer_value(json_object_get(row, "samples")) >= least_samples &&
			(!best || us > json_integer_value(json_object_get(best, figure))))
			best = row;
	}
	return best;
}

struct verdict {
	const json_t *median, *tail; /* rows; NULL: there is none */
};

/*
 * Under load a stage may have few samples because it is the slow one. Its median is then beyond the
 * others' 99th percentile, and its own is further still.
 */
static struct verdict judge(const json_t *rows)
{
	struct verdict verdict = {
		largest(rows, "p50_us", 1), largest(rows, "p99_us", LEAST_SAMPLES)};

	if (json_integer_value(json_object_get(verdict.median, "p50_us")) >=
		json_integer_value(json_object_get(verdict.tail, "p99_us")))
		verdict.tail = verdict.median;
	return verdict;
}

/* What each half says of this moment; a half that says nothing has none. */
static json_t *present_of(const struct report *report)
{
	json_t *present = json_object();

	for (int half = PROXY; half < HALVES; half++)
		if (*text_of(report->halves[half], "present"))
			json_object_set(present, half_names[half],
				json_object_get(report->halves[half], "present"));
	return present;
}

static json_t *whole(const struct report *report, json_t *rows)
{
	struct verdict verdict = judge(rows);
	bool both = report->halves[PROXY] && report->halves[AGENT];

	return json_pack("{s:O?,s:o,s:O,s:O?,s:O?,s:O?,s:s}", "window_s",
		json_object_get(report->halves[report->first], "window_s"), "present",
		present_of(report), "stages", rows, "largest_p50",
		json_object_get(verdict.median, "stage"), "largest_p99",
		json_object_get(verdict.tail, "stage"), "remedy",
		json_object_get(verdict.median, "remedy"), "missing", both ? "" : report->missing);
}

static void print_largest(const char *when, const json_t *row, const char *figure)
{
	char text[KW_ERROR_TEXT * 2], line[sizeof text + 200], time[64], stage[64];

	ctl_show_us((double)json_integer_value(json_object_get(row, figure)), time, sizeof time);
	ctl_show_text(text_of(row, "stage"), stage, sizeof stage);
	ctl_show_text(text_of(row, "remedy"), text, sizeof text);
	snprintf(line, sizeof line, "%s: %s, %s: %s", when, stage, time, text);
	ctl_print_wrapped(line, 0);
}

/* Without the remedies: that of the largest stage follows. */
static void print_rows(const struct ctl *ctl, const json_t *rows)
{
	static const char *const shown[] = {
		"at", "stage", "p50_us", "p99_us", "max_us", "samples", "doc", NULL};
	const struct ctl_rows table = {.stream = stdout,
		.columns = ctl_columns_of_output(),
		.names = shown,
		.sentence = "doc"};

	ctl_put_rows(ctl, &table, rows);
}

/* Returns whether a half says something. */
static bool print_present(const struct report *report)
{
	char text[KW_ERROR_TEXT * 2], line[sizeof text + 32];
	json_t *present = present_of(report), *value;
	bool any = json_object_size(present) > 0;
	const char *half;

	json_object_foreach(present, half, value)
	{
		ctl_show_text(json_string_value(value), text, sizeof text);
		snprintf(line, sizeof line, "At present the %s is %s", half, text);
		ctl_print_wrapped(line, 0);
	}
	json_decref(present);
	return any;
}

static void print_report(const struct ctl *ctl, const struct report *report, const json_t *rows)
{
	struct verdict verdict = judge(rows);
	double window =
		json_number_value(json_object_get(report->halves[report->first], "window_s"));
	char text[KW_ERROR_TEXT * 2];

	bool held_up;

	print_rows(ctl, rows);
	printf("\n");
	held_up = print_present(report);
	printf("Of the last %s, by samples.\n", ctl_show_us(window * 1e6, text, sizeof text));
	if (!verdict.median)
		printf(held_up ? "No change has passed through meanwhile.\n"
			       : "Nothing has changed meanwhile.\n");
	if (verdict.median)
		print_largest("Largest", verdict.median, "p50_us");
	if (verdict.tail != verdict.median)
		print_largest("Largest of 1 in 100", verdict.tail, "p99_us");
	if (!report->halves[PROXY] || !report->halves[AGENT]) {
		ctl_show_text(report->missing, text, sizeof text);
		printf("Missing: ");
		ctl_print_wrapped(text, 9);
	}
}

static void show(const struct ctl *ctl, const struct report *report)
{
	json_t *rows = rows_of(report), *answer;

	if (ctl->json) {
		answer = whole(report, rows);
		ctl_print_json(answer);
		json_decref(answer);
	} else {
		print_report(ctl, report, rows);
	}
	json_decref(rows);
}

enum ctl_exit ctl_run_explain_lag(struct ctl *ctl)
{
	struct report report = {0};
	struct kw_error error;
	json_t *answer;

	if (ask(ctl, ctl->options[0] ? RESET : KEEP, CTL_CALL_TIMEOUT_MS, &answer, &error))
		return ctl_fail(&error); /* a gateway says where to ask */
	report.first = half_of(answer);
	report.halves[report.first] = answer;
	if (ctl->arg_count > 0)
		ask_named(ctl, &report, ctl->args[0]);
	else
		look_beside(ctl, &report);
	show(ctl, &report);
	json_decref(report.halves[PROXY]);
	json_decref(report.halves[AGENT]);
	if (!report.failed)
		return CTL_DONE;
	kw_error_set(&error, KW_E_IO, "%s", report.missing);
	return ctl_fail(&error);
}
