/* history: the last changes of a daemon's state. */
#include "ctl/ctl.h"

#include "base/clock.h"

#include <stdlib.h>
#include <time.h>

static json_t *text_of_time(uint64_t us)
{
	time_t seconds = (time_t)(us / 1000000);
	char text[40];
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(text, sizeof text, "%Y-%m-%d %H:%M:%SZ", &tm))
		return json_string("unknown");
	return json_string(text);
}

/* until_us: when the next change came, or the present moment. */
static json_t *row(const json_t *change, uint64_t until_us)
{
	uint64_t at_us = (uint64_t)json_integer_value(json_object_get(change, "at_us"));
	char lasted[64];

	ctl_show_us(until_us > at_us ? (double)(until_us - at_us) : 0, lasted, sizeof lasted);
	return json_pack("{s:o,s:s,s:O?,s:O?,s:O?}", "at", text_of_time(at_us), "lasted", lasted,
		"state", json_object_get(change, "state"), "code",
		json_object_get(change, "reason_code"), "reason",
		json_object_get(change, "reason"));
}

/* The newest last, as in a log. `most` of them. */
static void print_changes(const struct ctl *ctl, const json_t *changes, size_t most)
{
	json_t *rows = json_array();
	size_t count = json_array_size(changes);

	for (size_t i = count < most ? count : most; i > 0; i--) {
		const json_t *next = i > 1 ? json_array_get(changes, i - 2) : NULL;

		json_array_append_new(rows,
			row(json_array_get(changes, i - 1),
				next ? (uint64_t)json_integer_value(json_object_get(next, "at_us"))
				     : kw_wall_us()));
	}
	if (json_array_size(rows) == 0)
		printf("nothing has happened yet\n");
	else
		ctl_print_rows(ctl, rows);
	json_decref(rows);
}

enum ctl_exit ctl_run_history(struct ctl *ctl)
{
	json_int_t most = INT32_MAX;
	struct kw_error error;
	json_t *changes;

	if (ctl->options[0] && !ctl_number("--count", ctl->options[0], &most))
		return CTL_FAILED;
	if (ctl_call(ctl, "history", NULL, CTL_CALL_TIMEOUT_MS, &changes, &error))
		return ctl_fail(&error);
	while ((json_int_t)json_array_size(changes) > most)
		json_array_remove(changes, json_array_size(changes) - 1);
	if (ctl->json)
		ctl_print_json(changes);
	else
		print_changes(ctl, changes, (size_t)most);
	json_decref(changes);
	return CTL_DONE;
}
