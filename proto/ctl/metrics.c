/* metrics: a daemon's figures, as text for Prometheus or as a table. */
#include "ctl/ctl.h"

#include <string.h>

/* "name{labels} value" as a row; false: the line is no sample. */
static bool add_sample(json_t *rows, const char *line, size_t length)
{
	const char *space = memrchr(line, ' ', length);

	if (length == 0 || *line == '#' || !space)
		return false;
	json_array_append_new(rows,
		json_pack("{s:o,s:o}", "metric", json_stringn(line, (size_t)(space - line)),
			"value", json_stringn(space + 1, (size_t)(line + length - space - 1))));
	return true;
}

static void print_table(const struct ctl *ctl, const char *text)
{
	json_t *rows = json_array();

	while (*text) {
		size_t length = strcspn(text, "\n");

		add_sample(rows, text, length);
		text += length + (text[length] == '\n');
	}
	ctl_print_rows(ctl, rows);
	json_decref(rows);
}

enum ctl_exit ctl_run_metrics(struct ctl *ctl)
{
	struct kw_error error;
	const json_t *text;
	json_t *answer;

	if (ctl_check_at(ctl, &error))
		return ctl_fail(&error);
	if (ctl_call(ctl, "metrics", NULL, CTL_CALL_TIMEOUT_MS, &answer, &error))
		return ctl_fail(&error);
	text = json_object_get(answer, "text");
	if (ctl->format == CTL_JSON || !json_is_string(text))
		ctl_print_json(answer);
	else if (ctl->format == CTL_TABLE)
		print_table(ctl, json_string_value(text));
	else
		ctl_print_text(kw_slice(json_string_value(text), json_string_length(text)));
	json_decref(answer);
	return CTL_DONE;
}
