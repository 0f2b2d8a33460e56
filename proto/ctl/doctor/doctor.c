/* The command: whose configuration, its program, and what it found. */
#include "ctl/ctl.h"

#include "ctl/doctor/child.h"
#include "ctl/doctor/kind.h"
#include "ctl/doctor/show.h"

#include "control/json_comments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum option { DAEMON };

#define STATUS_MS 2000
#define CONFIG_MOST ((size_t)1 << 20) /* as a daemon reads it */

/* ---- of a file ---- */

/* Only to see whose it is: what is wrong with it, the daemon's program says. NULL: it is not JSON.
 */
static json_t *read_config(const char *file)
{
	struct kw_json_place open_comment;
	json_t *config = NULL;
	char *text = malloc(CONFIG_MOST);
	FILE *stream = fopen(file, "re");
	size_t length = 0;

	if (stream && text)
		length = fread(text, 1, CONFIG_MOST, stream);
	if (length > 0 &&
		kw_json_blank_comments(text, &length, &open_comment) != KW_JSON_COMMENTS_UNCLOSED)
		config = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
	if (stream)
		fclose(stream);
	free(text);
	return config;
}

static int choose_program(
	const struct ctl *ctl, struct ctl_doctor_child *child, struct kw_error *error)
{
	const char *given = ctl->options[DAEMON];
	json_t *config;

	if (given) {
		child->program = ctl_doctor_program(given);
		if (!child->program)
			return kw_error_set(error, KW_E_ARGUMENT,
				"--daemon: expected proxy, agent or gateway; given %.40s", given);
		return KW_OK;
	}
	config = read_config(child->file);
	child->program = ctl_doctor_kind(config, child->file);
	json_decref(config);
	if (child->program)
		return KW_OK;
	return kw_error_set(error, KW_E_ARGUMENT,
		"%s cannot be read as JSON, so name its daemon: --daemon proxy, agent or gateway",
		child->file);
}

/* ---- of a running daemon ---- */

/* Its configuration in a file that has no name. */
static int keep_config(struct ctl_doctor_child *child, const json_t *config, struct kw_error *error)
{
	char *text = json_dumps(config, JSON_COMPACT);
	size_t length = text ? strlen(text) : 0;
	ssize_t put = 0;

	child->config = memfd_create("keywake-doctor", 0);
	if (child->config >= 0)
		put = write(child->config, text, length);
	free(text);
	if (child->config >= 0 && put == (ssize_t)length)
		return KW_OK;
	return kw_error_errno(error, errno, "no memory for the daemon's configuration");
}

static int ask_daemon(struct ctl *ctl, struct ctl_doctor_child *child, struct kw_error *error)
{
	json_t *version, *config;
	int code;

	if ((code = ctl_call(ctl, "version", NULL, STATUS_MS, &version, error)))
		return code;
	child->program = ctl_doctor_program(json_string_value(json_object_get(version, "program")));
	json_decref(version);
	if (!child->program)
		return kw_error_set(error, KW_E_PROTOCOL, "%s: no daemon of keywake", ctl->socket);
	if ((code = ctl_call(ctl, "config.get", NULL, STATUS_MS, &config, error)))
		return code;
	code = keep_config(child, config, error);
	json_decref(config);
	child->runs = kw_rpc_client_daemon(ctl->client, &child->daemon, NULL) == KW_OK;
	return code;
}

/* ---- what the daemon says of itself ---- */

static void count_one(json_t *report, const char *name)
{
	json_int_t count = json_integer_value(json_object_get(report, name));

	json_object_set_new(report, name, json_integer(count + 1));
}

static void add_state(struct ctl *ctl, json_t *report)
{
	static const char *const counts[] = {"ok", "warnings", "wrong"};
	static const char *const severities[] = {"ok", "warning", "wrong"};
	const char *state, *reason, *remedy;
	char text[KW_ERROR_TEXT * 2];
	enum ctl_mood mood;
	json_t *status;

	if (!ctl->client || ctl_call(ctl, "status", NULL, STATUS_MS, &status, NULL))
		return;
	state = json_string_value(json_object_get(status, "state"));
	reason = json_string_value(json_object_get(status, "reason"));
	remedy = json_string_value(json_object_get(status, "remedy"));
	mood = ctl_mood_of(status);
	snprintf(text, sizeof text, "the daemon is %s%s%s", state ? state : "silent",
		reason && *reason ? ": " : "", reason ? reason : "");
	json_array_append_new(json_object_get(report, "findings"),
		json_pack("{s:s,s:s,s:s,s:s}", "severity", severities[mood], "check",
			"daemon: state", "finding", text, "remedy",
			mood == CTL_MOOD_GOOD ? ""
			: remedy              ? remedy
					      : "as the reason says"));
	count_one(report, counts[mood]);
	json_decref(status);
}

/* ---- all ---- */

static int examine(
	struct ctl *ctl, struct ctl_doctor_child *child, json_t **report, struct kw_error *error)
{
	struct kw_buffer output = {0};
	int code;

	child->file = ctl->arg_count > 0 ? ctl->args[0] : NULL;
	code = child->file ? choose_program(ctl, child, error) : ask_daemon(ctl, child, error);
	if (!code)
		code = ctl_doctor_run_child(child, &output, error);
	if (!code) {
		*report = json_loadb(
			(const char *)kw_buffer_bytes(&output), kw_buffer_length(&output), 0, NULL);
		if (!json_is_object(*report))
			code = kw_error_set(
				error, KW_E_PROTOCOL, "%s printed no report", child->program);
	}
	kw_buffer_close(&output);
	return code;
}

enum ctl_exit ctl_run_doctor(struct ctl *ctl)
{
	struct ctl_doctor_child child = {.config = -1};
	struct kw_error error;
	json_t *report = NULL;
	enum ctl_exit status;
	int code;

	if (ctl->arg_count > 0 && ctl->socket)
		return ctl_usage("doctor: either a file or -s, not both");
	code = examine(ctl, &child, &report, &error);
	if (child.config >= 0)
		close(child.config);
	if (code) {
		json_decref(report);
		return ctl_fail(&error);
	}
	add_state(ctl, report);
	ctl_doctor_sort(report);
	if (ctl->json)
		ctl_print_json(report);
	else
		ctl_doctor_show(ctl, report);
	status = json_integer_value(json_object_get(report, "wrong")) > 0 ? CTL_REFUSED : CTL_DONE;
	json_decref(report);
	return status;
}
