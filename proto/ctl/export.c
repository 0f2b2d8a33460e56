/*
 * export: what the agent reads from the table, into a file or to standard output.
 *
 * The agent is given the writing end of a pipe. So this program opens, fills and names the file: it
 * needs the rights of its own user, not those of the daemon and its sandbox. A full or slow disk
 * does not concern the daemon's loop. When this program ends, by Ctrl-C for example, the pipe
 * breaks and the agent stops.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "ctl/target.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define PIPE_BYTES (1 << 20)
#define COPY_BYTES ((size_t)256 << 10)
#define LOOK_MS 200     /* without bytes: has the agent answered? */
#define ANSWER_MS 60000 /* after the last byte */

struct exporting {
	struct ctl *ctl;
	struct ctl_target target;
	bool to_stdout;
	int pipe;          /* the reading end */
	uint64_t received; /* bytes */
	json_t *answer;    /* once it came; or the error */
	bool answered;
	struct kw_error error;
	struct ctl_progress progress;
	uint64_t heard_us; /* bytes came, or the daemon answered beside them */
};

/* ---- bytes ---- */

static int write_stdout(const char *bytes, size_t length, struct kw_error *error)
{
	while (length > 0) {
		ssize_t put = write(STDOUT_FILENO, bytes, length);
		struct pollfd ready = {.fd = STDOUT_FILENO, .events = POLLOUT};

		if (put < 0 && errno == EAGAIN)
			poll(&ready, 1, -1);
		else if (put < 0 && errno != EINTR)
			return kw_error_errno(error, errno, "standard output");
		if (put > 0) {
			bytes += put;
			length -= (size_t)put;
		}
	}
	return 0;
}

/* 1: more can come, 0: that was all, or a negative code. */
static int copy_some(struct exporting *exporting)
{
	static char bytes[COPY_BYTES];
	ssize_t got = read(exporting->pipe, bytes, sizeof bytes);
	int code;

	if (got < 0 && errno == EINTR)
		return 1;
	if (got < 0)
		return -kw_error_errno(&exporting->error, errno, "the pipe from the agent");
	exporting->received += (uint64_t)got;
	exporting->heard_us = kw_clock_us();
	if (exporting->to_stdout)
		code = write_stdout(bytes, (size_t)got, &exporting->error);
	else
		code = ctl_target_write(&exporting->target, bytes, (size_t)got, &exporting->error);
	return code ? -code : got > 0;
}

/* An answer while no bytes come: a refusal, or the daemon does not know the request. */
static bool answered(struct exporting *exporting, int timeout_ms)
{
	int code;

	if (exporting->answered)
		return true;
	code = kw_rpc_client_await(
		exporting->ctl->client, timeout_ms, &exporting->answer, &exporting->error);
	exporting->answered = code != KW_E_TIMEOUT;
	return exporting->answered;
}

/* An agent can be long without bytes (a slow proxy), but it must still answer. */
static int check_heard(struct exporting *exporting)
{
	int code;

	if (kw_clock_us() - exporting->heard_us < CTL_QUIET_MS * UINT64_C(1000))
		return 0;
	code = ctl_check_alive(exporting->ctl, &exporting->error);
	exporting->heard_us = kw_clock_us();
	return code;
}

/* Until the agent has closed the pipe, or answered. */
static int copy_all(struct exporting *exporting)
{
	for (;;) {
		struct pollfd ready = {.fd = exporting->pipe, .events = POLLIN};
		int code = poll(&ready, 1, LOOK_MS);

		ctl_progress_look(&exporting->progress);
		if (code < 0 && errno != EINTR)
			return kw_error_errno(
				&exporting->error, errno, "waiting for the agent's bytes");
		/* An export that ends well closes the pipe; only a refusal comes without that. */
		if (code == 0 && answered(exporting, 0) && !exporting->answer)
			return 0;
		if (code == 0 && (code = check_heard(exporting)) != 0)
			return code;
		if (code > 0) {
			code = copy_some(exporting);
			if (code <= 0)
				return -code;
		}
	}
}

/* ---- the command ---- */

static int ask(struct exporting *exporting, struct kw_error *error)
{
	struct ctl *ctl = exporting->ctl;
	int ends[2], code = ctl_find_socket(ctl, error);

	if (!code)
		code = kw_rpc_client_open(ctl->socket, &ctl->client, error);
	if (code)
		return code;
	if (pipe2(ends, O_CLOEXEC))
		return kw_error_errno(error, errno, "a pipe for the agent's bytes");
	fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES); /* or what it has: only speed is lost */
	exporting->pipe = ends[0];
	ctl_progress_begin(&exporting->progress, ctl->socket, "export");
	exporting->heard_us = kw_clock_us();
	code = kw_rpc_client_begin(ctl->client, "export", NULL, ends[1], error);
	close(ends[1]);
	return code;
}

/* Did all arrive that the agent says it wrote? */
static int check_whole(struct exporting *exporting)
{
	json_int_t bytes;

	if (!answered(exporting, ANSWER_MS) || !exporting->answer)
		return (int)exporting->error.code;
	bytes = json_integer_value(json_object_get(exporting->answer, "bytes"));
	if (bytes > 0 && (uint64_t)bytes == exporting->received)
		return 0;
	return kw_error_set(&exporting->error, KW_E_PROTOCOL,
		"the agent wrote %lld bytes, %llu arrived: nothing of it was kept",
		(long long)bytes, (unsigned long long)exporting->received);
}

static int carry_out(struct exporting *exporting)
{
	int code = ask(exporting, &exporting->error);

	if (!code)
		code = copy_all(exporting);
	if (!code)
		code = check_whole(exporting);
	if (!code && !exporting->to_stdout)
		code = ctl_target_commit(&exporting->target, &exporting->error);
	return code;
}

/* Standard output might hold the stream itself: then the sentence goes to standard error. */
static void show_answer(const struct exporting *exporting)
{
	char keys[64], bytes[64];

	if (!exporting->to_stdout) {
		json_object_set_new(exporting->answer, "file",
			json_stringn_nocheck(
				exporting->target.path, strlen(exporting->target.path)));
		if (exporting->ctl->json)
			ctl_print_json(exporting->answer);
		else
			ctl_print_fields(exporting->ctl, exporting->answer);
		return;
	}
	ctl_show_count(
		json_number_value(json_object_get(exporting->answer, "keys")), keys, sizeof keys);
	ctl_show_bytes((double)exporting->received, bytes, sizeof bytes);
	fprintf(stderr, "keywakectl: %s keys, %s, %s\n", keys, bytes,
		json_is_true(json_object_get(exporting->answer, "one_moment"))
			? "as the table was when this began"
			: "each as it was at some moment since this began");
}

enum ctl_exit ctl_run_export(struct ctl *ctl)
{
	struct exporting exporting = {.ctl = ctl, .pipe = -1, .target = {.fd = -1}};
	enum ctl_exit status = CTL_DONE;
	int code = 0;

	exporting.to_stdout = strcmp(ctl->args[0], "-") == 0;
	if (exporting.to_stdout && isatty(STDOUT_FILENO))
		return ctl_usage("standard output is a terminal: name a file, or pipe it on");
	if (!exporting.to_stdout)
		code = ctl_target_open(&exporting.target, ctl->args[0], &exporting.error);
	if (!code)
		code = carry_out(&exporting);
	ctl_progress_end(&exporting.progress);
	if (code)
		status = ctl_fail(&exporting.error);
	else
		show_answer(&exporting);
	ctl_target_discard(&exporting.target);
	if (exporting.pipe >= 0)
		close(exporting.pipe);
	json_decref(exporting.answer);
	return status;
}
