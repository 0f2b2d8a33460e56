/* What the gateway's doctor looks at: the proxies, the primary, where it serves, its files. */
#include "daemon.h"

#include "control/config/tls.h"
#include "doctor/doctor.h"
#include "session/users.h"
#include "target/doctor.h"

#include <stdio.h>

static struct kw_target_doctor target;

/* Of the gateway's own: what it sends on is as its clients are. */
static const struct kw_wanted wanted[] = {
	{{"INFO", "server"}, KW_WANTED_TRIED, "+info", "to know which server this is"},
};

static void look_at_primary(struct kw_doctor *doctor, const struct kw_config *config)
{
	struct kw_doctor_server server = {
		.what = "primary",
		.group = "redis",
		.address = kw_config_text(config, "redis.address"),
		.use = KW_DOCTOR_FORWARDED,
		.wanted = wanted,
		.wanted_count = sizeof wanted / sizeof *wanted,
	};
	struct kw_error error;
	int code;

	if (!kw_config_bool(config, "gateway.forward") || !*server.address)
		return;
	code = kw_tls_config_load_redis(config, &server.tls, &error);
	if (code || server.tls)
		kw_doctor_read(doctor, "redis.tls", code, &error);
	kw_doctor_certificates(doctor, server.tls);
	if (!code)
		kw_doctor_server(doctor, &server);
}

static void read_files(struct kw_doctor *doctor, const struct kw_config *config)
{
	const char *path = kw_config_text(config, "gateway.users_file");
	struct kw_tls_context *context;
	struct kw_users *users;
	struct kw_error error;
	int code;

	if (*path) {
		users = kw_users_load(path, &error);
		kw_doctor_read(doctor, "gateway.users_file", users ? KW_OK : KW_E_CONFIG, &error);
		kw_users_free(users);
	}
	code = kw_gateway_client_tls(config, &context, &error);
	if (code || context)
		kw_doctor_read(doctor, "gateway.tls", code, &error);
	kw_doctor_certificates(doctor, context);
	kw_tls_context_unref(context);
}

static void look_at_listeners(
	struct kw_doctor *doctor, const struct kw_config *config, const char *key)
{
	for (size_t i = 0; i < kw_config_count(config, key); i++) {
		struct kw_redis_address address;

		if (kw_frontend_address_parse(kw_config_text_at(config, key, i), &address, NULL))
			continue;
		if (address.scheme == KW_REDIS_UNIX)
			kw_doctor_path(doctor, key, address.path);
		else
			kw_doctor_port(doctor, key, address.host, address.port);
	}
}

static void look(struct kw_doctor *doctor, const struct kw_config *config)
{
	read_files(doctor, config);
	look_at_listeners(doctor, config, "gateway.resp");
	look_at_listeners(doctor, config, "gateway.memcached");
	look_at_primary(doctor, config);
	kw_target_examine(&target, doctor, config, KW_ROLE_GATEWAY);
}

static void done(void)
{
	kw_target_examined(&target);
}

int kw_gateway_doctor(const struct kw_config *config, const struct kw_config_mistakes *mistakes)
{
	static const struct kw_doctor_subject subject = {
		.program = "keywake-gateway", .look = look, .done = done};

	return kw_doctor_run(&subject, config, mistakes);
}
