/*
 * Keys from the environment, for containers: KEYWAKE_ and the key in capitals, with _ for each dot.
 * Other programs put variables of that form there, too: they are known by their form.
 */
#include "control/config/internal.h"

#include "control/nearest.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "KEYWAKE_"
#define PREFIX_LENGTH (sizeof PREFIX - 1)

static char capital(char c)
{
	return c == '.' ? '_' : (char)toupper((unsigned char)c);
}

/* Is this the name, as in NAME=VALUE, of the key's variable? */
static bool names_key(const char *name, size_t length, const char *path)
{
	size_t i;

	for (i = 0; i < length && path[i]; i++)
		if (name[i] != capital(path[i]))
			return false;
	return i == length && !path[i];
}

static size_t find_variable(const struct kw_config *config, const char *name, size_t length)
{
	size_t index;

	for (index = 0; index < config->count; index++)
		if (names_key(name, length, config->keys[index].path))
			break;
	return index;
}

static bool ends_with(const char *name, size_t length, const char *end)
{
	const size_t end_length = strlen(end);

	return length >= end_length && memcmp(name + length - end_length, end, end_length) == 0;
}

/*
 * Kubernetes gives each pod variables for each service of its namespace, which are made of the
 * service's name: KEYWAKE_PROXY_SERVICE_HOST, KEYWAKE_PROXY_SERVICE_PORT_TABLE, KEYWAKE_PROXY_PORT,
 * KEYWAKE_PROXY_PORT_7471_TCP_ADDR (pkg/kubelet/envvars). And KEYWAKE_SOCKET is keywakectl's.
 */
static bool is_of_another(const char *name, size_t length)
{
	static const char *const ends[] = {"SERVICE_HOST", "PORT", "_TCP", "_UDP", "_SCTP",
		"_TCP_ADDR", "_UDP_ADDR", "_SCTP_ADDR", "_TCP_PROTO", "_UDP_PROTO", "_SCTP_PROTO"};

	if (length == strlen("SOCKET") && memcmp(name, "SOCKET", length) == 0)
		return true;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (ends_with(name, length, ends[i]))
			return true;
	return memmem(name, length, "_SERVICE_PORT_", strlen("_SERVICE_PORT_")) != NULL;
}

void kw_config_put_variable(struct kw_buffer *out, const char *path)
{
	kw_buffer_append(out, PREFIX, PREFIX_LENGTH);
	for (; *path; path++) {
		char one = capital(*path);

		kw_buffer_append(out, &one, 1);
	}
}

static int refuse(const struct kw_config *config, const char *name, size_t length, const char *best,
	struct kw_error *error)
{
	struct kw_buffer meant = {0};
	int code;

	if (!best)
		return kw_error_set(error, KW_E_CONFIG,
			PREFIX "%.*s in the environment: no key has this name (--help-config "
			       "lists all keys)",
			(int)length, name);
	kw_config_put_variable(&meant, best);
	kw_buffer_append(&meant, "", 1);
	code = kw_error_set(error, KW_E_CONFIG,
		PREFIX "%.*s in the environment: no key has this name: did you mean %s?",
		(int)length, name, (const char *)kw_buffer_bytes(&meant));
	kw_buffer_close(&meant);
	return code;
}

/* As with an unknown key of a file: one of a later version, a typo, or one that matters? */
static int pass_over(
	struct kw_config *config, const char *name, size_t length, struct kw_error *error)
{
	char word[KW_CONFIG_PATH_MAX], shown[PREFIX_LENGTH + KW_CONFIG_PATH_MAX];
	struct kw_nearest nearest;
	const char *best;

	if (is_of_another(name, length))
		return KW_OK;
	if (length >= sizeof word)
		length = sizeof word - 1;
	for (size_t i = 0; i < length; i++)
		word[i] = (char)tolower((unsigned char)name[i]);
	word[length] = '\0';
	kw_nearest_init(&nearest, word);
	for (size_t i = 0; i < config->count; i++)
		kw_nearest_try(&nearest, config->keys[i].path);
	best = kw_nearest_word(&nearest);
	if (best || kw_config_is_weighty(word, strcspn(word, "_")))
		return refuse(config, name, length, best, error);
	snprintf(shown, sizeof shown, PREFIX "%.*s", (int)length, name);
	kw_config_put_passed_over(config, shown);
	return KW_OK;
}

/* NAME=VALUE, the prefix of which is gone. */
static int take(struct kw_config *config, const char *variable, struct kw_config_slot *slots,
	json_t *source, struct kw_error *error)
{
	const size_t length = strcspn(variable, "=");
	const char *given = variable + length + (variable[length] == '=');
	const size_t index = find_variable(config, variable, length);
	json_t *value;
	int code;

	if (index == config->count)
		return pass_over(config, variable, length, error);
	if (!*given)
		return KW_OK;
	code = kw_config_value_parse(&config->keys[index], given, &value, error);
	if (code) {
		kw_error_wrap(error, PREFIX "%.*s in the environment", (int)length, variable);
		return code;
	}
	kw_config_put(&slots[index], value, source);
	return KW_OK;
}

int kw_config_environment_read(
	struct kw_config *config, struct kw_config_slot *slots, struct kw_error *error)
{
	json_t *source = json_string("the environment");
	int code = KW_OK;

	for (size_t i = 0; !code && i < config->variable_count; i++) {
		code = take(config, config->variables[i], slots, source, error);
		if (code && config->mistakes) {
			kw_config_mistake(config->mistakes, error);
			code = KW_OK;
		}
	}
	json_decref(source);
	return code;
}

int kw_config_environment_keep(
	struct kw_config *config, const char *const *environment, struct kw_error *error)
{
	for (; *environment; environment++) {
		if (strncmp(*environment, PREFIX, PREFIX_LENGTH) != 0)
			continue;
		if (config->variable_count == KW_CONFIG_VARIABLES_MAX)
			return kw_error_set(error, KW_E_CONFIG,
				"more than %d variables in the environment begin with " PREFIX
				": put the configuration into a file (--config)",
				KW_CONFIG_VARIABLES_MAX);
		config->variables[config->variable_count++] =
			kw_strdup(*environment + PREFIX_LENGTH);
	}
	return KW_OK;
}

bool kw_config_in_environment(const struct kw_config *config, const char *path)
{
	for (size_t i = 0; i < config->variable_count; i++) {
		const char *variable = config->variables[i];
		const size_t length = strcspn(variable, "=");

		if (variable[length] && variable[length + 1] && names_key(variable, length, path))
			return true;
	}
	return false;
}
