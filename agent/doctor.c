/* What the agent's doctor looks at: the local server, the proxies, its files. */
#include "daemon.h"

#include "control/config/tls.h"
#include "doctor/doctor.h"
#include "load/mode.h"
#include "local/permissions.h"
#include "sync/fit.h"
#include "target/doctor.h"

#include <string.h>

static struct kw_target_doctor target;
static struct kw_wanted wanted[KW_LOCAL_PERMISSIONS];

static void look_at_local(struct kw_doctor *doctor, const struct kw_config *config)
{
	const struct kw_mode *mode = kw_mode_find(kw_config_text(config, "apply.mode"));
	struct kw_doctor_server server = {
		.what = "local server",
		.group = "redis",
		.address = kw_config_text(config, "redis.address"),
		.wanted = wanted,
	};
	struct kw_error error;
	int code = kw_tls_config_load_redis(config, &server.tls, &error);

	if (code || server.tls)
		kw_doctor_read(doctor, "redis.tls", code, &error);
	kw_doctor_certificates(doctor, server.tls);
	if (code || !mode || mode->applier == KW_MODE_APPLIER_NONE || !*server.address) {
		kw_tls_context_unref(server.tls);
		return;
	}
	server.use = mode->applier == KW_MODE_APPLIER_LINK ? KW_DOCTOR_LED : KW_DOCTOR_WRITTEN;
	server.wanted_count = kw_local_wanted(kw_agent_manner(mode),
		strcmp(kw_config_text(config, "apply.cursor_store"), "key") == 0, true, wanted);
	kw_doctor_server(doctor, &server);
}

static void read_masterauth(struct kw_doctor *doctor, const struct kw_config *config)
{
	const char *path = kw_config_text(config, "apply.replica.masterauth_file");
	struct kw_buffer secret = {0};
	struct kw_error error;

	if (*path)
		kw_doctor_read(doctor, "apply.replica.masterauth_file",
			kw_secret_load(path, &secret, &error), &error);
	kw_buffer_close(&secret);
}

static void look(struct kw_doctor *doctor, const struct kw_config *config)
{
	read_masterauth(doctor, config);
	look_at_local(doctor, config);
	kw_target_examine(&target, doctor, config, KW_ROLE_AGENT);
}

static void done(void)
{
	kw_target_examined(&target);
}

int kw_agent_doctor(const struct kw_config *config, const struct kw_config_mistakes *mistakes)
{
	static const struct kw_doctor_subject subject = {
		.program = "keywake-agent", .look = look, .fit = kw_sync_check_fit, .done = done};

	return kw_doctor_run(&subject, config, mistakes);
}
