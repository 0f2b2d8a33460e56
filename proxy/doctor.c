/*
 * What the proxy's doctor looks at: the primary, the sentinels, the listeners, the table. And what
 * --check-config does, which asks no server.
 */
#include "proxy.h"

#include "control/config/certificates.h"
#include "control/config/keys.h"
#include "control/config/tls.h"
#include "doctor/doctor.h"
#include "feed/flags.h"
#include "feed/permissions.h"
#include "redis/address.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- files ---- */

static void tell_key(void *arg, const char *id, int64_t at_s)
{
	kw_doctor_key(arg, id, at_s);
}

static void read_keys(struct kw_doctor *doctor, const struct kw_config *config)
{
	bool named = *kw_config_text(config, "auth.secret_file") ||
		     *kw_config_text(config, "auth.keys_file");
	struct kw_error error;
	struct kw_keyring *keyring = kw_keys_load(config, &error);

	if (named || !keyring)
		kw_doctor_read(doctor, "auth", keyring ? KW_OK : KW_E_CONFIG, &error);
	if (keyring)
		kw_keyring_each_expiry(keyring, tell_key, doctor);
	kw_keyring_release(keyring);
}

static void read_wire_tls(struct kw_doctor *doctor, const struct kw_config *config)
{
	struct kw_tls_context *context;
	struct kw_error error;
	int code = kw_wire_tls_load(
		config, "listen", KW_TLS_SERVER, &kw_server_tls_terms, &context, &error);

	if (code || context)
		kw_doctor_read(doctor, "tls", code, &error);
	kw_doctor_certificates(doctor, context);
	kw_tls_context_unref(context);
}

/* ---- servers ---- */

static bool flags(struct kw_slice text, char wanted[KW_DOCTOR_FLAGS])
{
	static_assert(KW_FLAGS_TEXT <= KW_DOCTOR_FLAGS, "they must fit");
	const kw_flags now = kw_flags_parse(text);

	kw_flags_merged(now, wanted);
	return kw_flags_sufficient(now);
}

#define WANTED_MOST 32
static struct kw_wanted wanted[WANTED_MOST];

/* What the feed needs, and what functions need besides. */
static void want(struct kw_doctor_server *server, const struct kw_wanted *by_feed, size_t count,
	bool functions)
{
	assert(count < WANTED_MOST);
	memcpy(wanted, by_feed, count * sizeof *wanted);
	if (functions)
		wanted[count++] = kw_functions_permission;
	server->wanted = wanted;
	server->wanted_count = count;
}

static void look_at_primary(struct kw_doctor *doctor, const struct kw_config *config)
{
	/* With the stream, flags are of no use. With auto, notifications may follow. */
	const bool streams = kw_proxy_feed(config) == KW_SOURCE_FEED_STREAM;
	const enum kw_source_flags policy =
		streams ? KW_SOURCE_FLAGS_TRUST : kw_proxy_flags(config);
	struct kw_doctor_server server = {
		.what = "primary",
		.group = "redis",
		.address = kw_config_text(config, "redis.address"),
		.use = streams ? KW_DOCTOR_STREAMED : KW_DOCTOR_FOLLOWED,
		.flags = policy == KW_SOURCE_FLAGS_TRUST ? NULL : flags,
		.set_flags = policy == KW_SOURCE_FLAGS_SET ? &kw_notify_set_permission : NULL,
	};
	const struct kw_wanted *by_feed;
	size_t count;
	struct kw_error error;
	int code = kw_tls_config_load_redis(config, &server.tls, &error);

	if (code || server.tls)
		kw_doctor_read(doctor, "redis.tls", code, &error);
	kw_doctor_certificates(doctor, server.tls);
	/* The doctor asks CONFIG GET itself. */
	count = streams ? kw_stream_permissions(&by_feed)
			: kw_notify_permissions(KW_SOURCE_FLAGS_TRUST, &by_feed);
	want(&server, by_feed, count, kw_config_bool(config, "source.functions"));
	/* Without a host: the one that Sentinel names. */
	if (!code && kw_redis_address_check(server.address, NULL) == KW_OK)
		kw_doctor_server(doctor, &server);
	else
		kw_tls_context_unref(server.tls);
}

static const struct kw_wanted asks_sentinels[] = {
	{{"SENTINEL", "MASTER", KW_WANTED_KEY}, KW_WANTED_TRIED, "+sentinel|master",
		"to know who is the primary"},
	{{"SENTINEL", "SENTINELS", KW_WANTED_KEY}, KW_WANTED_TRIED, "+sentinel|sentinels",
		"to know the others"},
	{{"SENTINEL", "MYID"}, KW_WANTED_TRIED, "+sentinel|myid", "to tell them apart"},
};

static void look_at_sentinels(struct kw_doctor *doctor, const struct kw_config *config)
{
	struct kw_doctor_server server = {
		.group = "sentinel",
		.use = KW_DOCTOR_SENTINEL,
		.master = kw_config_text(config, "sentinel.name"),
		.wanted = asks_sentinels,
		.wanted_count = sizeof asks_sentinels / sizeof *asks_sentinels,
	};
	struct kw_tls_context *context;
	struct kw_error error;
	int code = kw_proxy_sentinel_tls(config, &context, &error);
	char what[64];

	if (code || context)
		kw_doctor_read(doctor, "sentinel.tls", code, &error);
	kw_doctor_certificates(doctor, context);
	for (size_t i = 0; i < kw_config_count(config, "sentinel.addresses") && !code; i++) {
		snprintf(what, sizeof what, "sentinel %zu", i + 1);
		server.what = what;
		server.address = kw_config_text_at(config, "sentinel.addresses", i);
		server.tls = context ? kw_tls_context_ref(context) : NULL;
		kw_doctor_server(doctor, &server);
	}
	kw_tls_context_unref(context);
}

/* ---- listeners and table ---- */

static void look_at_device(
	struct kw_doctor *doctor, const struct kw_config *config, const struct kw_address *address)
{
	const struct kw_check check = {"listens", "listen"};
	struct kw_rdma_options rdma = {0};
	struct kw_error error;

	kw_proxy_read_rdma(config, &rdma);
	if (kw_server_look(address, &rdma, &error))
		kw_finding_of(kw_doctor_findings(doctor), check, &error, NULL);
	else
		kw_finding_add(kw_doctor_findings(doctor), KW_FINDING_OK, check,
			"there is an RDMA device with the address %s", address->host);
}

/* Is any of them of rdma? */
static bool look_at_listeners(struct kw_doctor *doctor, const struct kw_config *config)
{
	bool over_rdma = false;

	for (size_t i = 0; i < kw_config_count(config, "listen"); i++) {
		struct kw_address address;
		char port[8];

		if (kw_address_parse(kw_config_text_at(config, "listen", i), &address, NULL))
			continue;
		snprintf(port, sizeof port, "%u", address.port);
		if (address.carrier == KW_CARRIER_RDMA)
			look_at_device(doctor, config, &address);
		else if (address.carrier == KW_CARRIER_SHM)
			kw_doctor_path(doctor, "listen", address.path);
		else
			kw_doctor_port(doctor, "listen", address.host, port);
		over_rdma |= address.carrier == KW_CARRIER_RDMA;
	}
	return over_rdma;
}

static void look(struct kw_doctor *doctor, const struct kw_config *config)
{
	struct kw_host_table table = {
		.max_bytes = kw_proxy_max_bytes(config),
		.huge_pages = kw_config_bool(config, "table.huge_pages"),
		.running = kw_doctor_is_running(doctor),
	};

	read_keys(doctor, config);
	read_wire_tls(doctor, config);
	table.over_rdma = look_at_listeners(doctor, config);
	kw_doctor_table(doctor, &table);
	look_at_primary(doctor, config);
	if (strcmp(kw_config_text(config, "authority.by"), "sentinel") == 0)
		look_at_sentinels(doctor, config);
}

int kw_proxy_doctor(const struct kw_config *config, const struct kw_config_mistakes *mistakes)
{
	static const struct kw_doctor_subject subject = {.program = "keywake-proxy", .look = look};

	return kw_doctor_run(&subject, config, mistakes);
}

/* ---- for --check-config ---- */

static void check_certificates(const struct kw_config *config, struct kw_config_mistakes *files)
{
	struct kw_tls_context *context;
	struct kw_error error;
	int code;

	code = kw_tls_config_load_redis(config, &context, &error);
	kw_certificates_look(files, code, context, &error);
	code = kw_wire_tls_load(
		config, "listen", KW_TLS_SERVER, &kw_server_tls_terms, &context, &error);
	kw_certificates_look(files, code, context, &error);
	code = kw_proxy_sentinel_tls(config, &context, &error);
	kw_certificates_look(files, code, context, &error);
}

void kw_proxy_look(const struct kw_config *config, struct kw_config_looked *looked)
{
	struct kw_rdma_options rdma = {0};

	check_certificates(config, &looked->files);
	kw_proxy_read_rdma(config, &rdma);
	for (size_t i = 0; i < kw_config_count(config, "listen"); i++) {
		const char *text = kw_config_text_at(config, "listen", i);
		struct kw_address address;
		struct kw_error error;

		/* One that is no address is a mistake in the configuration, and was told. */
		if (kw_address_parse(text, &address, NULL) ||
			kw_server_look(&address, &rdma, &error) == KW_OK)
			continue;
		kw_error_wrap(&error, "listen: %s", text);
		kw_config_mistake(&looked->moment, &error);
	}
}
