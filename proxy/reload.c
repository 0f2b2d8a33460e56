/*
 * What changes while the proxy runs: live keys of the configuration, and a reload, which reads
 * again the files that it names.
 */
#include "proxy.h"

#include "base/buffer.h"
#include "base/log.h"
#include "base/secret.h"
#include "control/config/keys.h"
#include "control/config/tls.h"
#include "mandate/sentinels.h"

#include <string.h>

/* Keys that could not be in the table are looked at again: they might fit now. */
static int change_max(struct kw_proxy *proxy, struct kw_error *error)
{
	struct kw_source_stats stats;
	int code = kw_table_set_max(proxy->table, kw_proxy_max_bytes(proxy->daemon.config), error);

	if (code)
		return code;
	kw_source_stats(proxy->source, &stats);
	if (stats.too_large > 0)
		kw_source_reconcile(proxy->source, "table.max_bytes was changed");
	return KW_OK;
}

static void change_term(struct kw_proxy *proxy)
{
	uint64_t term = (uint64_t)kw_config_integer(proxy->daemon.config, "authority.term");

	if (term < proxy->mandate.operator_term && term > 0)
		kw_log_warn("proxy",
			"authority.term is lowered from %llu to %llu: agents that have followed "
			"the "
			"higher one refuse this table",
			(unsigned long long)proxy->mandate.operator_term, (unsigned long long)term);
	kw_mandate_give_term(&proxy->mandate, term);
	kw_proxy_publish(proxy);
}

int kw_proxy_changed(void *arg, const char *path, struct kw_error *error)
{
	struct kw_proxy *proxy = arg;
	const struct kw_config *config = proxy->daemon.config;

	if (strcmp(path, "log.level") == 0)
		kw_log_set_level(
			(enum kw_log_level)kw_log_level_parse(kw_config_text(config, "log.level")));
	else if (strcmp(path, "auth.addresses") == 0)
		kw_proxy_set_addresses(proxy);
	else if (strcmp(path, "table.max_bytes") == 0)
		return change_max(proxy, error);
	else if (strncmp(path, "remote.sessions", strlen("remote.sessions")) == 0 ||
		 strcmp(path, "remote.compressed_sessions") == 0)
		kw_proxy_set_limits(proxy);
	else if (strcmp(path, "authority.term") == 0)
		change_term(proxy);
	else if (strcmp(path, "source.max_missing") == 0)
		kw_source_set_max_missing(
			proxy->source, kw_config_number(config, "source.max_missing"));
	else if (strcmp(path, "source.primary_share") == 0)
		kw_source_set_primary_share(
			proxy->source, kw_config_number(config, "source.primary_share"));
	else
		kw_source_set_limits(proxy->source,
			(uint64_t)kw_config_integer(config, "source.keys_per_second"),
			(uint64_t)kw_config_integer(config, "source.bytes_per_second"),
			(uint64_t)kw_config_integer(config, "source.audit_keys_per_second"));
	return KW_OK;
}

/* What a reload reads again, although the names of the files cannot have changed. */
struct reread {
	struct kw_buffer password;
	struct kw_buffer sentinel_password;
	struct kw_keyring *keyring;
	struct kw_tls_context *context;  /* of connections to the primary */
	struct kw_tls_context *sentinel; /* … and to the sentinels */
	struct kw_tls_context *wire;     /* of agents, over tcp+tls */
};

static struct kw_slice slice_of(const struct kw_buffer *buffer)
{
	return kw_slice(kw_buffer_bytes(buffer), kw_buffer_length(buffer));
}

static int reread(const struct kw_config *config, struct reread *files, struct kw_error *error)
{
	if (kw_secret_load(kw_config_text(config, "redis.password_file"), &files->password, error))
		return kw_error_wrap(error, "redis.password_file");
	if (kw_secret_load(kw_config_text(config, "sentinel.password_file"),
		    &files->sentinel_password, error))
		return kw_error_wrap(error, "sentinel.password_file");
	files->keyring = kw_keys_load(config, error);
	if (!files->keyring)
		return (int)error->code;
	if (kw_tls_config_load_redis(config, &files->context, error) == KW_OK &&
		kw_proxy_sentinel_tls(config, &files->sentinel, error) == KW_OK &&
		kw_wire_tls_load(config, "listen", KW_TLS_SERVER, &kw_server_tls_terms,
			&files->wire, error) == KW_OK)
		return KW_OK;
	kw_tls_context_unref(files->context);
	kw_tls_context_unref(files->sentinel);
	kw_keyring_release(files->keyring);
	return (int)error->code;
}

/* A revocation lasts until the next reload. Whoever reloads for another reason should know it. */
static void say_lifted(void *arg, const char *id)
{
	kw_log_warn("agents",
		"%s was revoked, and this reload lets it in again: take its lines out of "
		"auth.keys_file, or put its certificate into tls.crl, and reload",
		id);
	++*(uint32_t *)arg;
}

/* All files count, or none. */
int kw_proxy_reloaded(void *arg, json_t *answer, struct kw_error *error)
{
	struct kw_proxy *proxy = arg;
	struct reread files = {0};
	struct kw_keyring *keyring;
	uint32_t revoked, lifted = 0;

	if (reread(proxy->daemon.config, &files, error)) {
		kw_secret_close_buffer(&files.password);
		kw_secret_close_buffer(&files.sentinel_password);
		return kw_error_wrap(error, "keys, password and certificates stay as they were");
	}
	keyring = files.keyring;
	kw_proxy_note_readers(proxy, keyring);
	kw_tls_current_put(&proxy->redis_tls, files.context);
	kw_tls_current_put(&proxy->sentinel_tls, files.sentinel);
	kw_source_set_password(proxy->source, slice_of(&files.password));
	kw_secret_close_buffer(&files.password);
	if (proxy->sentinels)
		kw_sentinels_set_password(proxy->sentinels, slice_of(&files.sentinel_password));
	kw_secret_close_buffer(&files.sentinel_password);
	kw_server_each_lifted(proxy->server, keyring, say_lifted, &lifted);
	revoked = kw_server_set_keyring(proxy->server, keyring);
	revoked += kw_server_set_tls(
		proxy->server, files.wire, kw_wire_tls_identity(proxy->daemon.config));
	kw_tls_context_unref(files.wire);
	json_object_set_new(answer, "keys", json_integer((json_int_t)kw_keyring_count(keyring)));
	json_object_set_new(answer, "revoked", json_integer((json_int_t)revoked));
	json_object_set_new(answer, "revocations_lifted", json_integer((json_int_t)lifted));
	kw_keyring_release(keyring);
	return KW_OK;
}
