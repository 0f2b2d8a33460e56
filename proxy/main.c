/* keywake-proxy: beside the primary, keeps the table that agents read. See README.md. */
#include "config_keys.h"
#include "proxy.h"

#include "control/program.h"

static struct kw_proxy proxy;

static int start(uv_loop_t *loop, struct kw_config *config, struct kw_error *error)
{
	return kw_proxy_init(&proxy, loop, config, error);
}

static void finish(void)
{
	kw_proxy_close(&proxy);
}

int main(int argc, char **argv)
{
	static const struct kw_program program = {
		.name = "keywake-proxy",
		.component = "proxy",
		.keys = kw_proxy_config_keys,
		.rule = kw_proxy_config_rule,
		.look = kw_proxy_look,
		.doctor = kw_proxy_doctor,
		.start = start,
		.finish = finish,
	};

	return kw_program_run(&program, argc, argv);
}
