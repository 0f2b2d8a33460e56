/* history: the last changes of a daemon's state. */
#include "ctl/ctl.h"

#include "base/clock.h"

#include <stdint.h>

/* until_us: when the next change came, or the present moment. */
static json_t *row(const json_t *change, uint64_t until_us)
{
	uint64_t at_us = (uint64_t)json_integer_value(json_object_get(change, "at_us"));
	char lasted[64], at[40];

	ctl_show_us(until_us > at_us ? (double)(until_us - at_us) : 0, lasted, sizeof lasted);
	return json_pack("{s:s,s:s,s:O?,s:O?,s:O?}", "at", ctl_show_time(at_us, at, sizeof at),
		"lasted", lasted, "state", json_object_get(change, "state"), "code",
		json_object_get(change, "reason_code"), "reason",
		json_object_get(change, "reason"));
}

/* A daemon tells the newest first. Here they are as in a log: the newest last, `most` of them. */
static json_t *in_order(const json_t *told, size_t most)
{
	json_t *changes = json_array();
	size_t count = json_array_size(told);

	for (size_t i = count < most ? count : most; i > 0; i--)
		json_array_append(changes, json_array_get(told, i - 1));
	return changes;
}

static void print_changes(const struct ctl *ctl, const json_t *changes)
{
	const struct ctl_rows table = {
		.stream = stdout, .columns = ctl_columns_of_output(), .sentence = "reason"};
	json_t *rows = json_array();
	size_t count = json_array_size(changes);

	for (size_t i = 0; i < count; i++) {
		const json_t *next = json_array_get(changes, i + 1);

		json_array_append_new(rows,
			row(json_array_get(changes, i),
				next ? (uint64_t)json_integer_value(json_object_get(next, "at_us"))
				     : kw_wall_us()));
	}
	if (json_array_size(rows) == 0)
		printf("nothing has happened yet\n");
	else
		ctl_put_rows(ctl, &table, rows);
	json_decref(rows);
}

enum ctl_exit ctl_run_history(struct ctl *ctl)
{
	json_int_t most = INT32_MAX;
	struct kw_error error;
	json_t *told, *changes;

	if (ctl->options[0] && !ctl_number("--count", ctl->options[0], &most))
		return CTL_FAILED;
	if (ctl_call(ctl, "history", NULL, CTL_CALL_TIMEOUT_MS, &told, &error))
		return ctl_fail(&error);
	changes = in_order(told, (size_t)most);
	json_decref(told);
	if (ctl->json)
		ctl_print_json(changes);
	else
		print_changes(ctl, changes);
	json_decref(changes);
	return CTL_DONE;
}
