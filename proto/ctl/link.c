/* Which socket, calls over it, and what a failure means for the exit status. */
#include "ctl/ctl.h"

#include "base/buffer.h"
#include "base/clock.h"

#include <glob.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUN_SOCKETS "/run/keywake/*.sock"
#define PLAIN                                                                                      \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-" /* completion.h        \
									     */
#define AWAY_US UINT64_C(10000000) /* a restarting daemon can take this long */
#define RETRY_US 100000
#define LOOK_MS 100    /* without an answer: how far has it come? */
#define ALIVE_MS 10000 /* a daemon that answers nothing for so long hangs */
#define SECONDS_MAX 1e7

enum ctl_exit ctl_fail(const struct kw_error *error)
{
	char text[KW_ERROR_TEXT * 2];

	fprintf(stderr, "keywakectl: %s\n", ctl_show_text(error->text, text, sizeof text));
	if (error->code == KW_E_REFUSED)
		return CTL_REFUSED;
	return error->code == KW_E_TIMEOUT ? CTL_TIMEOUT : CTL_FAILED;
}

enum ctl_exit ctl_usage(const char *format, ...)
{
	struct kw_error error = {.code = KW_E_ARGUMENT};
	va_list args;

	va_start(args, format);
	vsnprintf(error.text, sizeof error.text, format, args);
	va_end(args);
	return ctl_fail(&error);
}

/* A name that is the same with and without quotes of a shell: others choose it, too. */
static bool is_plain(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	return name[strspn(name, PLAIN)] == '\0';
}

/* One line with the names. It may be copied into a shell, so it has plain ones alone. */
static int ask_which(const glob_t *found, struct kw_error *error)
{
	struct kw_buffer names = {0};
	size_t left = 0;

	for (size_t i = 0; i < found->gl_pathc; i++)
		if (is_plain(found->gl_pathv[i]))
			kw_buffer_printf(&names, " %s", found->gl_pathv[i]);
		else
			left++;
	if (left > 0)
		kw_buffer_printf(&names,
			" (%zu more have other characters than letters, digits and . _ - in their "
			"names)",
			left);
	kw_error_set(error, KW_E_ARGUMENT,
		"which daemon? There are several sockets: name one by -s:%.*s",
		(int)kw_buffer_length(&names), (const char *)kw_buffer_bytes(&names));
	kw_buffer_close(&names);
	return KW_E_ARGUMENT;
}

static int choose_socket(struct ctl *ctl, const glob_t *found, struct kw_error *error)
{
	if (found->gl_pathc == 1 && strlen(found->gl_pathv[0]) < sizeof ctl->socket_found) {
		strcpy(ctl->socket_found, found->gl_pathv[0]);
		ctl->socket = ctl->socket_found;
		return 0;
	}
	if (found->gl_pathc == 0)
		return kw_error_set(error, KW_E_ARGUMENT,
			"which daemon? There is no socket in /run/keywake: name one by -s SOCKET, "
			"or in KEYWAKE_SOCKET");
	return ask_which(found, error);
}

int ctl_find_socket(struct ctl *ctl, struct kw_error *error)
{
	const char *environment = getenv("KEYWAKE_SOCKET");
	glob_t found = {0};
	int code;

	if (ctl->socket)
		return 0;
	if (environment && *environment) {
		ctl->socket = environment;
		return 0;
	}
	/* No match leaves the list empty. */
	glob(RUN_SOCKETS, 0, NULL, &found);
	code = choose_socket(ctl, &found, error);
	globfree(&found);
	return code;
}

static size_t copy_found(const glob_t *found, char **sockets, size_t most, struct kw_error *error)
{
	if (found->gl_pathc == 0)
		kw_error_set(error, KW_E_ARGUMENT,
			"which daemons? There is no socket in /run/keywake: name some after the "
			"command");
	else if (found->gl_pathc > most)
		kw_error_set(error, KW_E_ARGUMENT,
			"which daemons? There are %zu sockets in /run/keywake: name %zu of them at "
			"most",
			(size_t)found->gl_pathc, most);
	if (found->gl_pathc > most)
		return 0;
	for (size_t i = 0; i < found->gl_pathc; i++)
		sockets[i] = kw_strdup(found->gl_pathv[i]);
	return found->gl_pathc;
}

size_t ctl_find_sockets(const struct ctl *ctl, char **sockets, size_t most, struct kw_error *error)
{
	const char *environment = getenv("KEYWAKE_SOCKET");
	const char *named = ctl->socket ? ctl->socket : environment;
	glob_t found = {0};
	size_t count;

	if (named && *named) {
		sockets[0] = kw_strdup(named);
		return 1;
	}
	glob(RUN_SOCKETS, 0, NULL, &found);
	count = copy_found(&found, sockets, most, error);
	globfree(&found);
	return count;
}

static void nap(uint64_t us)
{
	struct timespec pause = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	nanosleep(&pause, NULL);
}

static void hang_up(struct ctl *ctl)
{
	kw_rpc_client_close(ctl->client);
	ctl->client = NULL;
}

int ctl_call(struct ctl *ctl, const char *method, json_t *params, int timeout_ms, json_t **result,
	struct kw_error *error)
{
	int code = ctl_find_socket(ctl, error);

	if (!code && !ctl->client)
		code = kw_rpc_client_open(ctl->socket, &ctl->client, error);
	if (code) {
		json_decref(params);
		return code;
	}
	code = kw_rpc_client_call(ctl->client, method, params, timeout_ms, result, error);
	if (code == KW_E_IO || code == KW_E_PROTOCOL)
		hang_up(ctl);
	return code;
}

/* The daemon's queue of connections can be full for a moment: that is no failure yet. */
static int open_patiently(const struct ctl *ctl, uint64_t until_us, struct kw_rpc_client **client,
	struct kw_error *error)
{
	for (;;) {
		int code = kw_rpc_client_open(ctl->socket, client, error);

		if (code != KW_E_STATE)
			return code;
		if (kw_clock_us() >= until_us)
			return (int)(error->code = KW_E_TIMEOUT);
		nap(RETRY_US);
	}
}

int ctl_check_alive(const struct ctl *ctl, struct kw_error *error)
{
	uint64_t until_us = kw_clock_us() + (uint64_t)ALIVE_MS * 1000;
	struct kw_rpc_client *client;
	int code = open_patiently(ctl, until_us, &client, error);

	if (code)
		return code;
	code = kw_rpc_client_call(client, "version", NULL, ALIVE_MS, NULL, error);
	kw_rpc_client_close(client);
	/* A refusal is an answer. */
	if (code == KW_E_REFUSED)
		return 0;
	if (code == KW_E_TIMEOUT)
		kw_error_set(error, KW_E_TIMEOUT,
			"%s: the daemon hangs: it answers nothing for %d s", ctl->socket,
			ALIVE_MS / 1000);
	return code;
}

int ctl_await(
	struct ctl *ctl, struct ctl_progress *progress, json_t **result, struct kw_error *error)
{
	uint64_t heard_us = kw_clock_us();

	for (;;) {
		int code = kw_rpc_client_await(ctl->client, LOOK_MS, result, error);

		ctl_progress_look(progress);
		if (code == KW_E_TIMEOUT && kw_clock_us() - heard_us < CTL_QUIET_MS * 1000)
			continue;
		if (code != KW_E_TIMEOUT)
			return code;
		code = ctl_check_alive(ctl, error);
		if (code)
			return code;
		heard_us = kw_clock_us();
	}
}

static int time_left_ms(uint64_t until_us)
{
	uint64_t now = kw_clock_us();

	if (until_us <= now)
		return 0;
	return (int)((until_us - now) / 1000 + 1);
}

int ctl_call_patiently(struct ctl *ctl, const char *method, uint64_t deadline_us,
	void (*away)(void *arg, const struct kw_error *error), void *arg, json_t **result,
	struct kw_error *error)
{
	uint64_t give_up_us = kw_clock_us() + AWAY_US;
	int code = ctl_find_socket(ctl, error);

	if (code)
		return code;
	for (;;) {
		uint64_t until_us = give_up_us < deadline_us ? give_up_us : deadline_us;

		code = ctl_call(ctl, method, NULL, time_left_ms(until_us), result, error);
		if (code != KW_E_IO && code != KW_E_TIMEOUT && code != KW_E_STATE)
			return code;
		if (kw_clock_us() >= deadline_us) {
			if (error)
				error->code = KW_E_TIMEOUT;
			return KW_E_TIMEOUT;
		}
		/* A daemon that hangs for that long counts as away. */
		if (kw_clock_us() >= give_up_us) {
			if (error)
				error->code = KW_E_IO;
			return KW_E_IO;
		}
		if (away)
			away(arg, error);
		nap(RETRY_US);
	}
}

int ctl_program(struct ctl *ctl, uint64_t deadline_us, char program[64], struct kw_error *error)
{
	const char *name;
	json_t *version;
	int code = ctl_call_patiently(ctl, "version", deadline_us, NULL, NULL, &version, error);

	if (code)
		return code;
	name = json_string_value(json_object_get(version, "program"));
	snprintf(program, 64, "%s", name ? name : "");
	json_decref(version);
	return 0;
}

/* "keywake-agent" is one of "agent or proxy". */
static bool is_for(const char *at, const char *program)
{
	const char *name = strrchr(program, '-');

	return !name || strstr(at, name + 1);
}

int ctl_check_at(struct ctl *ctl, struct kw_error *error)
{
	const char *at = ctl->command->at;
	char program[64];
	int code = at ? ctl_program(ctl, kw_clock_us() + ALIVE_MS * 1000, program, error) : 0;

	if (code || !at || !*program || is_for(at, program))
		return code;
	return kw_error_set(error, KW_E_REFUSED,
		"%s is for %s %s, and %s answers on %s: run keywakectl -s "
		"/run/keywake/%.*s-NAME.sock "
		"%s",
		ctl->command->name, *at == 'a' ? "an" : "a", at, program, ctl->socket,
		(int)strcspn(at, " "), at, ctl->command->name);
}

enum ctl_exit ctl_fail_at(struct ctl *ctl, const struct kw_error *error)
{
	struct kw_error elsewhere;

	if (error->code == KW_E_REFUSED && ctl->client &&
		ctl_check_at(ctl, &elsewhere) == KW_E_REFUSED)
		return ctl_fail(&elsewhere);
	return ctl_fail(error);
}

bool ctl_seconds(const struct ctl *ctl, int option, double fallback, double *seconds)
{
	const char *text = ctl->options[option];
	char *end;

	*seconds = fallback;
	if (!text)
		return true;
	*seconds = strtod(text, &end);
	if (end != text && *end == '\0' && isfinite(*seconds) && *seconds >= 0 &&
		*seconds <= SECONDS_MAX)
		return true;
	ctl_usage("%s: expected seconds, like 30 or 0.5; given %.40s",
		ctl->command->options[option].name, text);
	return false;
}
