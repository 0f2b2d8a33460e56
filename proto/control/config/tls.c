#include "control/config/tls.h"

#include "control/config/small_file.h"

#include <stdio.h>
#include <string.h>

/* The CAs of a system are some 200 KiB. */
#define FILE_MAX ((size_t)4 * 1024 * 1024)

#define PATH_ROOM 64

/* Remedies at the server's end are its own parameters; a sentinel has the same. */
#define SERVER_TERMS(group, name)                                                                  \
	{                                                                                          \
		.keys = group, .peer = name,                                                       \
		.plain = "use redis:// (without TLS), or the port that its tls-port names",        \
		.demand = "tls-auth-clients no", .trust = "tls-ca-cert-file", .secrets = true,     \
	}

const struct kw_tls_terms kw_tls_terms_redis = SERVER_TERMS("redis.tls", "the server");
const struct kw_tls_terms kw_tls_terms_sentinel = SERVER_TERMS("sentinel.tls", "the sentinel");

/* The files of one group, in memory. */
struct files {
	struct kw_buffer ca, cert, key, crl;
};

static void close_files(struct files *files)
{
	if (files->key.data)
		explicit_bzero(files->key.data, files->key.capacity);
	kw_buffer_close(&files->ca);
	kw_buffer_close(&files->cert);
	kw_buffer_close(&files->key);
	kw_buffer_close(&files->crl);
}

static const char *path_of(char path[PATH_ROOM], const char *group, const char *key)
{
	snprintf(path, PATH_ROOM, "%s.%s", group, key);
	return path;
}

/* A group that has no such key has no such file. */
static const char *text_of(const struct kw_config *config, const char *group, const char *key)
{
	char path[PATH_ROOM];

	path_of(path, group, key);
	return kw_config_check_path(config, path, NULL) == KW_OK ? kw_config_text(config, path)
								 : "";
}

static bool verify_of(const struct kw_config *config, const char *group)
{
	char path[PATH_ROOM];

	path_of(path, group, "verify");
	return kw_config_check_path(config, path, NULL) != KW_OK || kw_config_bool(config, path);
}

/* The CAs of a system vouch for hosts of the whole world: none of them lets a client in. */
static bool verifies(const struct kw_config *config, enum kw_tls_role role, const char *group)
{
	if (role == KW_TLS_SERVER)
		return *text_of(config, group, "ca") != '\0';
	return verify_of(config, group);
}

struct one {
	const char *group, *key, *what;
	enum kw_file_care care;
};

static int read_one(const struct kw_config *config, const struct one *one, struct kw_buffer *to,
	struct kw_tls_pem *pem, struct kw_error *error)
{
	pem->file = text_of(config, one->group, one->key);
	if (*pem->file == '\0')
		return KW_OK;
	if (kw_small_file_read(pem->file, FILE_MAX, one->care, one->what, to, error))
		return kw_error_wrap(error, "%s.%s", one->group, one->key);
	if (kw_buffer_length(to) == 0)
		return kw_error_set(error, KW_E_CONFIG, "%s.%s: %s %s is empty", one->group,
			one->key, one->what, pem->file);
	pem->bytes = kw_slice(kw_buffer_bytes(to), kw_buffer_length(to));
	return KW_OK;
}

static int read_files(const struct kw_config *config, const char *group, struct files *files,
	struct kw_tls_options *options, struct kw_error *error)
{
	const struct one ca = {group, "ca", "the file of CAs", KW_FILE_ANY};
	const struct one cert = {group, "cert", "the certificate", KW_FILE_ANY};
	const struct one key = {group, "key", "the private key", KW_FILE_SECRET};
	const struct one crl = {group, "crl", "the list of revoked certificates", KW_FILE_ANY};
	int code;

	if ((code = read_one(config, &ca, &files->ca, &options->ca, error)) ||
		(code = read_one(config, &cert, &files->cert, &options->cert, error)) ||
		(code = read_one(config, &key, &files->key, &options->key, error)))
		return code;
	return read_one(config, &crl, &files->crl, &options->crl, error);
}

static struct kw_tls_context *load(const struct kw_config *config, enum kw_tls_role role,
	bool verify, const struct kw_tls_terms *terms, struct kw_error *error)
{
	struct kw_tls_options options = {
		.role = role,
		.verify = verify,
		.wipe = terms->secrets,
		.kernel = role == KW_TLS_SERVER,
		.server_name = text_of(config, terms->keys, "server_name"),
		.terms = terms,
	};
	struct kw_tls_context *context = NULL;
	struct files files = {0};

	if (!read_files(config, terms->keys, &files, &options, error))
		context = kw_tls_context_new(&options, error);
	close_files(&files);
	return context;
}

struct kw_tls_context *kw_tls_config_load(const struct kw_config *config, enum kw_tls_role role,
	const struct kw_tls_terms *terms, struct kw_error *error)
{
	return load(config, role, verifies(config, role, terms->keys), terms, error);
}

struct kw_tls_context *kw_tls_config_load_open(
	const struct kw_config *config, const struct kw_tls_terms *terms, struct kw_error *error)
{
	return load(config, KW_TLS_SERVER, false, terms, error);
}

static bool wants_tls(const struct kw_config *config)
{
	static const char scheme[] = "rediss://";

	return strncmp(kw_config_text(config, "redis.address"), scheme, sizeof scheme - 1) == 0;
}

int kw_tls_config_load_redis(
	const struct kw_config *config, struct kw_tls_context **context, struct kw_error *error)
{
	*context = NULL;
	if (!wants_tls(config))
		return KW_OK;
	*context = kw_tls_config_load(config, KW_TLS_CLIENT, &kw_tls_terms_redis, error);
	return *context ? KW_OK : KW_E_CONFIG;
}

int kw_tls_config_rule_redis(const struct kw_config *config, struct kw_error *error)
{
	static const char *const keys[] = {"ca", "cert", "key", "server_name"};
	bool cert = *kw_config_text(config, "redis.tls.cert") != '\0';

	if (cert != (*kw_config_text(config, "redis.tls.key") != '\0'))
		return kw_error_set(error, KW_E_CONFIG,
			"redis.tls.cert and redis.tls.key: only one is given; set both, or none");
	for (size_t i = 0; i < sizeof keys / sizeof *keys && !wants_tls(config); i++)
		if (*text_of(config, "redis.tls", keys[i]))
			return kw_error_set(error, KW_E_CONFIG,
				"redis.tls.%s is set, and redis.address is not rediss://: nothing "
				"would be encrypted; write rediss://host:port there, or leave "
				"redis.tls out",
				keys[i]);
	return KW_OK;
}
