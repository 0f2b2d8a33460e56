/* keywake-gateway: serves reads of the table that a proxy keeps to Redis and memcached clients. */
#include "config_keys.h"
#include "daemon.h"

#include "base/log.h"

#include <signal.h>
#include <uv.h>

/* As for a wrong command line: starting again would not mend it (RestartPreventExitStatus=2). */
#define EXIT_CONFIG 2

int main(int argc, char **argv)
{
	struct kw_config *config;
	struct kw_gateway gateway;
	struct kw_error error;
	uv_loop_t loop;
	int status, code;

	kw_daemon_allocators();
	config = kw_config_new(kw_gateway_config_keys);
	kw_config_set_rule(config, kw_gateway_check);
	status = kw_config_command_line(
		config, "keywake-gateway", kw_gateway_config_keys, NULL, argc, argv);
	if (status >= 0)
		goto free_config;
	signal(SIGPIPE, SIG_IGN);
	kw_signals_block();
	kw_log_set_level(
		(enum kw_log_level)kw_log_level_parse(kw_config_text(config, "log.level")));
	kw_log_info("gateway", "keywake-gateway %s", KW_VERSION);
	code = uv_loop_init(&loop);
	if (code != 0) {
		kw_log_error("gateway", "the event loop cannot be made: %s", uv_strerror(code));
		status = 1;
		goto free_config;
	}
	status = 0;
	if (kw_gateway_init(&gateway, &loop, config, &error)) {
		kw_log_error("gateway", "%s", error.text);
		status = error.code == KW_E_CONFIG ? EXIT_CONFIG : 1;
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	kw_gateway_close(&gateway);
	uv_loop_close(&loop);
free_config:
	kw_config_free(config);
	return status;
}
