/* config get: the configuration in effect, what of it is saved, and where each value comes from. */
#include "ctl/ctl.h"

#include "control/json_text.h"

#include <stdint.h>
#include <stdlib.h>

enum option { SAVED, SOURCES };

/* A row for each key: its name, its value, and where that comes from. */
static void print_sources(const struct ctl *ctl, const json_t *answer)
{
	json_t *rows = json_array(), *entry;
	const char *key;

	json_object_foreach((json_t *)(uintptr_t)answer, key, entry)
	{
		char *value = json_dumps(json_object_get(entry, "value"),
			JSON_ENCODE_ANY | JSON_COMPACT | KW_JSON_DIGITS);

		json_array_append_new(
			rows, json_pack("{s:s,s:s,s:O?}", "key", key, "value", value ? value : "",
				      "source", json_object_get(entry, "source")));
		free(value);
	}
	ctl_print_rows(ctl, rows);
	json_decref(rows);
}

enum ctl_exit ctl_run_config_get(struct ctl *ctl)
{
	json_t *path = NULL, *params, *answer;
	struct kw_error error;
	char cell[CTL_CELL];

	if (ctl->options[SAVED] && (ctl->arg_count > 0 || ctl->options[SOURCES]))
		return ctl_usage(
			"--saved shows all that is saved: leave the path and --sources out");
	if (ctl->arg_count > 0)
		path = json_string(ctl->args[0]);
	if (ctl->arg_count > 0 && !path)
		return ctl_usage("the path is not valid UTF-8");
	params = json_pack("{s:o*}", "path", path);
	if (ctl->options[SAVED])
		json_object_set_new(params, "saved", json_true());
	if (ctl->options[SOURCES])
		json_object_set_new(params, "sources", json_true());
	if (ctl_call(ctl, "config.get", params, CTL_CALL_TIMEOUT_MS, &answer, &error))
		return ctl_fail(&error);
	if (ctl->json)
		ctl_print_json(answer);
	else if (ctl->options[SOURCES])
		print_sources(ctl, answer);
	else if (json_is_object(answer))
		ctl_print_fields(ctl, answer);
	else
		printf("%s\n", ctl_show_value("", answer, cell));
	json_decref(answer);
	return CTL_DONE;
}
