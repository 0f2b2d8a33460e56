/* status, agents: what is going on. */
#include "ctl/ctl.h"

#include <string.h>

static const char *field_text(const json_t *status, const char *name)
{
	const char *text = json_string_value(json_object_get(status, name));

	return text ? text : "";
}

/* "keywake-agent r1: warm", then why, then everything else the daemon says. */
static void print_status(const struct ctl *ctl, const char *program, json_t *status)
{
	const char *state = field_text(status, "state");
	char text[KW_ERROR_TEXT * 2];
	double progress = json_number_value(json_object_get(status, "progress"));

	printf("%s%s%s", ctl_bold(ctl), ctl_show_text(program, text, sizeof text),
		ctl_colour_end(ctl));
	if (*field_text(status, "name"))
		printf(" %s", ctl_show_text(field_text(status, "name"), text, sizeof text));
	printf(": %s%s%s\n", ctl_state_colour(ctl, state), ctl_show_text(state, text, sizeof text),
		ctl_colour_end(ctl));
	if (*field_text(status, "reason")) {
		char code[40], line[sizeof text + sizeof code + 4];

		ctl_show_text(field_text(status, "reason"), text, sizeof text);
		ctl_show_text(field_text(status, "reason_code"), code, sizeof code);
		snprintf(line, sizeof line, *code ? "%s [%s]" : "%s", text, code);
		printf("  ");
		ctl_print_wrapped(line, 2);
	}
	if (progress > 0 && progress < 1) {
		ctl_bar(progress, 40, text, sizeof text);
		printf("  %s\n", text);
	}
	json_object_del(status, "name");
	json_object_del(status, "state");
	json_object_del(status, "reason");
	json_object_del(status, "reason_code");
	json_object_del(status, "progress");
	ctl_print_fields(ctl, status);
}

enum ctl_exit ctl_run_status(struct ctl *ctl)
{
	json_t *status, *version;
	struct kw_error error;
	const char *program;

	if (ctl_call(ctl, "status", NULL, CTL_CALL_TIMEOUT_MS, &status, &error))
		return ctl_fail(&error);
	if (ctl->json) {
		ctl_print_json(status);
		json_decref(status);
		return CTL_DONE;
	}
	if (ctl_call(ctl, "version", NULL, CTL_CALL_TIMEOUT_MS, &version, &error)) {
		json_decref(status);
		return ctl_fail(&error);
	}
	program = field_text(version, "program");
	print_status(ctl, program, status);
	json_decref(version);
	json_decref(status);
	return CTL_DONE;
}

enum ctl_exit ctl_run_agents(struct ctl *ctl)
{
	struct kw_error error;
	json_t *agents;

	if (ctl_call(ctl, "agents.list", NULL, CTL_CALL_TIMEOUT_MS, &agents, &error))
		return ctl_fail_at(ctl, &error);
	if (ctl->json)
		ctl_print_json(agents);
	else if (json_array_size(agents) == 0)
		printf("no agent is connected\n");
	else
		ctl_print_rows(ctl, agents);
	json_decref(agents);
	return CTL_DONE;
}
