#include "control/program.h"

#include "base/buffer.h"
#include "base/log.h"
#include "control/daemon.h"
#include "control/journal.h"
#include "control/notify.h"
#include "control/signals.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define EXIT_FAILED 1
#define EXIT_CONFIG 2
#define PAUSE_S 10

static void *zalloc_many(size_t count, size_t bytes)
{
	size_t all;

	return kw_zalloc(__builtin_mul_overflow(count, bytes, &all) ? SIZE_MAX : all);
}

/* Libuv and jansson get their memory by base/buffer.h: where it is refused, they too end with its
 * sentence. */
static void set_allocators(void)
{
	json_set_alloc_funcs(kw_alloc, free);
	/* It fails for a NULL only. */
	(void)uv_replace_allocator(kw_alloc, kw_realloc, zalloc_many, free);
}

/*
 * Its memory holds the data of the primary, and secrets. So the process leaves no core file, and
 * another process of the same user can neither attach to it nor read /proc/PID/mem (man 2 prctl).
 * LeakSanitizer must attach to it.
 */
static void forbid_dumps(void)
{
#ifndef __SANITIZE_ADDRESS__
	const char *dumpable = getenv("KW_DUMPABLE");

	if (!dumpable || strcmp(dumpable, "1") != 0)
		prctl(PR_SET_DUMPABLE, 0);
#endif
}

/*
 * The service manager starts a daemon that ended again a second later (RestartSec=1), because a
 * crash should cost no more. A start that fails, at a port in use for example, would fail each
 * second and fill the journal. SIGTERM ends the pause.
 */
static void pause_before_the_end(const struct kw_program *program)
{
	const struct timespec pause = {.tv_sec = PAUSE_S};
	sigset_t ends;

	if (!kw_notify_has_manager())
		return;
	kw_log_info(program->component, "ends in %d s, and is tried again by the service manager",
		PAUSE_S);
	kw_notify_extend(UINT64_C(3) * PAUSE_S * 1000000);
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	while (sigtimedwait(&ends, NULL, &pause) < 0 && errno == EINTR)
		;
}

static int run(const struct kw_program *program, struct kw_config *config)
{
	struct kw_error error;
	uv_loop_t loop;
	int status = 0, code = uv_loop_init(&loop);

	if (code != 0) {
		kw_log_error(
			program->component, "the event loop cannot be made: %s", uv_strerror(code));
		return EXIT_FAILED;
	}
	code = program->start(&loop, config, &error);
	if (code) {
		kw_log_error(program->component, "%s", error.text);
		status = code == KW_E_CONFIG ? EXIT_CONFIG : EXIT_FAILED;
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	program->finish();
	uv_loop_close(&loop);
	if (status == EXIT_FAILED)
		pause_before_the_end(program);
	return status;
}

int kw_program_run(const struct kw_program *program, int argc, char **argv)
{
	struct kw_config *config;
	int status;

	forbid_dumps();
	set_allocators();
	config = kw_config_new(program->keys);
	kw_config_set_rule(config, program->rule);
	status = kw_config_command_line(config,
		&(struct kw_config_program){
			program->name, program->keys, program->look, program->doctor},
		argc, argv);
	if (status < 0) {
		signal(SIGPIPE, SIG_IGN);
		kw_signals_block();
		kw_journal_open(program->name);
		kw_log_set_level(
			(enum kw_log_level)kw_log_level_parse(kw_config_text(config, "log.level")));
		kw_log_info(program->component, "%s %s", program->name, KW_VERSION);
		kw_daemon_log_passed_over(config);
		status = run(program, config);
	}
	kw_config_free(config);
	return status;
}
