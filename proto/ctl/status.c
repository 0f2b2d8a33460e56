/* status, agents: what is going on. */
#include "ctl/ctl.h"

static const char *field_text(const json_t *status, const char *name)
{
	const char *text = json_string_value(json_object_get(status, name));

	return text ? text : "";
}

/* Every figure the daemon has. */
static void print_all(const struct ctl *ctl, const char *program, json_t *status)
{
	static const char *const told[] = {
		"name", "state", "reason", "reason_code", "grade", "progress"};

	ctl_print_state(ctl, program, status);
	for (size_t i = 0; i < sizeof told / sizeof *told; i++)
		json_object_del(status, told[i]);
	ctl_print_fields(ctl, status);
}

static enum ctl_exit show_status(struct ctl *ctl, json_t *status)
{
	bool all = ctl->options[0] != NULL;
	struct kw_error error;
	const char *program;
	json_t *version;

	if (ctl_call(ctl, "version", NULL, CTL_CALL_TIMEOUT_MS, &version, &error))
		return ctl_fail(&error);
	program = field_text(version, "program");
	if (all)
		print_all(ctl, program, status);
	else
		ctl_print_summary(ctl, program, status);
	json_decref(version);
	return CTL_DONE;
}

enum ctl_exit ctl_run_status(struct ctl *ctl)
{
	enum ctl_exit exit = CTL_DONE;
	struct kw_error error;
	json_t *status;

	if (ctl_call(ctl, "status", NULL, CTL_CALL_TIMEOUT_MS, &status, &error))
		return ctl_fail(&error);
	if (ctl->json)
		ctl_print_json(status);
	else
		exit = show_status(ctl, status);
	json_decref(status);
	return exit;
}

static void print_agents(const struct ctl *ctl, const json_t *agents)
{
	static const char *const first[] = {
		"id", "name", "state", "lag_ms", "applied", "bytes", "carrier", "peer", NULL};
	const struct ctl_rows rows = {
		.stream = stdout, .columns = ctl_columns_of_output(), .first = first};

	ctl_put_rows(ctl, &rows, agents);
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
		print_agents(ctl, agents);
	json_decref(agents);
	return CTL_DONE;
}
