#include "control/program.h"

#include "base/buffer.h"
#include "base/log.h"
#include "control/signals.h"

#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define EXIT_FAILED 1
#define EXIT_CONFIG 2

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
	status = kw_config_command_line(
		config, program->name, program->keys, program->look, argc, argv);
	if (status < 0) {
		signal(SIGPIPE, SIG_IGN);
		kw_signals_block();
		kw_log_set_level(
			(enum kw_log_level)kw_log_level_parse(kw_config_text(config, "log.level")));
		kw_log_info(program->component, "%s %s", program->name, KW_VERSION);
		status = run(program, config);
	}
	kw_config_free(config);
	return status;
}
