/* keywake-gateway: serves reads of the table that a proxy keeps to Redis and memcached clients. */
#include "config_keys.h"
#include "daemon.h"

#include "control/program.h"

static struct kw_gateway gateway;

static int start(uv_loop_t *loop, struct kw_config *config, struct kw_error *error)
{
	return kw_gateway_init(&gateway, loop, config, error);
}

static void finish(void)
{
	kw_gateway_close(&gateway);
}

int main(int argc, char **argv)
{
	static const struct kw_program program = {
		.name = "keywake-gateway",
		.component = "gateway",
		.keys = kw_gateway_config_keys,
		.rule = kw_gateway_check,
		.look = kw_gateway_look,
		.doctor = kw_gateway_doctor,
		.start = start,
		.finish = finish,
	};

	return kw_program_run(&program, argc, argv);
}
