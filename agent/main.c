/* keywake-agent: beside a replica, keeps it equal to the table that a proxy serves. */
#include "config_keys.h"
#include "daemon.h"

#include "control/program.h"

static struct kw_agent_daemon agent;

static int start(uv_loop_t *loop, struct kw_config *config, struct kw_error *error)
{
	return kw_agent_daemon_init(&agent, loop, config, error);
}

static void finish(void)
{
	kw_agent_daemon_close(&agent);
}

int main(int argc, char **argv)
{
	static const struct kw_program program = {
		.name = "keywake-agent",
		.component = "agent",
		.keys = kw_agent_config_keys,
		.rule = kw_agent_daemon_check,
		.look = kw_agent_daemon_look,
		.doctor = kw_agent_doctor,
		.start = start,
		.finish = finish,
	};

	return kw_program_run(&program, argc, argv);
}
