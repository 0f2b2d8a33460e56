#include "target/target.h"

#include "control/config/wire_tls.h"
#include "remote/rdma/keys.h"
#include "remote/users.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int read_name(
	const struct kw_config *config, char name[KW_AGENT_NAME_MAX + 1], struct kw_error *error)
{
	const char *given = kw_config_text(config, "name");
	char host[256] = "";

	if (!*given && gethostname(host, sizeof host - 1) < 0)
		return kw_error_set(error, KW_E_CONFIG, "name: the host has no name: set one");
	if (!*given)
		given = host;
	if (strlen(given) > KW_AGENT_NAME_MAX)
		return kw_error_set(
			error, KW_E_CONFIG, "name: longer than %d characters", KW_AGENT_NAME_MAX);
	for (const char *c = given; *c; c++)
		if (*c < 0x21 || *c > 0x7e)
			return kw_error_set(error, KW_E_CONFIG,
				"name: only printable ASCII without spaces is allowed");
	snprintf(name, KW_AGENT_NAME_MAX + 1, "%.*s", KW_AGENT_NAME_MAX, given);
	return KW_OK;
}

static int read_proxies(
	const struct kw_config *config, struct kw_proxies *proxies, struct kw_error *error)
{
	for (size_t i = 0; i < kw_config_count(config, "proxy"); i++)
		if (kw_proxies_add(proxies, kw_config_text_at(config, "proxy", i), error))
			return KW_E_CONFIG;
	return kw_proxies_check(proxies, error);
}

static bool compresses(const struct kw_config *config)
{
	return strcmp(kw_config_text(config, "remote.compression"), "zstd") == 0;
}

static int check_compression(const struct kw_config *config, struct kw_error *error)
{
	if (!compresses(config) || kw_compression_built())
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG,
		"remote.compression: this build has no zstd: use none, or build with "
		"-Dzstd=enabled");
}

static int check_proxy(const struct kw_config *config, const char *proxy, struct kw_error *error)
{
	struct kw_address address;

	if (kw_address_parse(proxy, &address, error))
		return kw_error_wrap(error, "proxy");
	if (address.carrier != KW_CARRIER_SHM && address.port == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"proxy: port 0 cannot be connected to: use the one that the proxy listens "
			"on");
	if (kw_address_check_guard(&address,
		    address.carrier == KW_CARRIER_TLS ||
			    *kw_config_text(config, "auth.secret_file") ||
			    kw_config_bool(config, "auth.allow_insecure"),
		    false, error))
		return kw_error_wrap(error, "proxy");
	return KW_OK;
}

int kw_target_check(const struct kw_config *config, struct kw_error *error)
{
	char name[KW_AGENT_NAME_MAX + 1];
	struct kw_proxies proxies = {0};
	int code = read_name(config, name, error);

	if (!code)
		code = check_compression(config, error);
	if (!code)
		code = read_proxies(config, &proxies, error);
	for (size_t i = 0; i < proxies.count && !code; i++)
		code = check_proxy(config, proxies.address[i], error);
	return code;
}

int kw_target_load_tls(
	const struct kw_config *config, struct kw_tls_context **context, struct kw_error *error)
{
	return kw_wire_tls_load(
		config, "proxy", KW_TLS_CLIENT, &kw_remote_tls_terms, context, error);
}

static void read_rdma(const struct kw_config *config, struct kw_rdma_options *rdma)
{
	snprintf(rdma->device, sizeof rdma->device, "%s", kw_config_text(config, "rdma.device"));
#define KEY(name, ...) rdma->name = (uint8_t)kw_config_integer(config, "rdma." #name);
	KW_RDMA_KEYS(KEY)
#undef KEY
	rdma->traffic_class = (uint8_t)kw_config_integer(config, "rdma.traffic_class");
	rdma->read_bytes = (uint32_t)kw_config_integer(config, "rdma.read_bytes");
}

static int read_users(
	const struct kw_config *config, struct kw_remote_options *remote, struct kw_error *error)
{
	for (size_t i = 0; i < kw_config_count(config, "shm.users"); i++)
		if (kw_users_add(&remote->users, kw_config_text_at(config, "shm.users", i), error))
			return kw_error_wrap(error, "shm.users");
	return KW_OK;
}

/* Name, key and certificates. */
static int load(struct kw_target *target, const struct kw_config *config, struct kw_error *error)
{
	struct kw_tls_context *context;

	if (read_name(config, target->name, error) ||
		kw_own_key_load(config, &target->key, error) ||
		kw_target_load_tls(config, &context, error))
		return KW_E_CONFIG;
	kw_tls_current_put(&target->tls, context);
	return KW_OK;
}

int kw_target_open(struct kw_target *target, const struct kw_config *config,
	struct kw_proxies *proxies, struct kw_remote_options *remote, struct kw_error *error)
{
	if (check_compression(config, error) || read_proxies(config, proxies, error) ||
		load(target, config, error) || read_users(config, remote, error))
		return KW_E_CONFIG;
	memcpy(remote->agent_name, target->name, sizeof remote->agent_name);
	memcpy(remote->key_id, target->key.id, sizeof remote->key_id);
	remote->secret = kw_own_key_secret(&target->key);
	remote->tls = &target->tls;
	remote->allow_insecure = kw_config_bool(config, "auth.allow_insecure");
	remote->read_timeout_ms = (uint32_t)kw_config_integer(config, "remote.read_timeout_ms");
	remote->depth = (uint32_t)kw_config_integer(config, "remote.depth");
	remote->compress = compresses(config);
	read_rdma(config, &remote->rdma);
	return KW_OK;
}

void kw_target_close(struct kw_target *target)
{
	kw_tls_current_put(&target->tls, NULL);
	kw_own_key_close(&target->key);
}
