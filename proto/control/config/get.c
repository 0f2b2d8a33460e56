/* Reading the configuration. */
#include "control/config/internal.h"

#include "base/log.h"
#include "control/json_text.h"

#include <stdlib.h>
#include <string.h>

/* Asking for a key that is not in the table, or as another type, is a bug of ours. */
static const json_t *value_of(const struct kw_config *config, const char *path, unsigned types)
{
	size_t index = kw_config_find(config, path);

	if (index == config->count || !(types & (1U << config->keys[index].type))) {
		kw_log_error("config", "BUG: %s is not a key of that type", path);
		abort();
	}
	return config->slots[index].value;
}

#define TYPE(name) (1U << KW_CONFIG_##name)

bool kw_config_bool(const struct kw_config *config, const char *path)
{
	return json_is_true(value_of(config, path, TYPE(BOOL)));
}

int64_t kw_config_integer(const struct kw_config *config, const char *path)
{
	return json_integer_value(value_of(config, path, TYPE(INTEGER) | TYPE(BYTES)));
}

double kw_config_number(const struct kw_config *config, const char *path)
{
	return json_number_value(value_of(config, path, TYPE(NUMBER) | TYPE(INTEGER)));
}

const char *kw_config_text(const struct kw_config *config, const char *path)
{
	const char *text = json_string_value(value_of(config, path, TYPE(TEXT)));

	return text ? text : "";
}

size_t kw_config_count(const struct kw_config *config, const char *path)
{
	return json_array_size(value_of(config, path, TYPE(TEXTS) | TYPE(INTEGERS)));
}

const char *kw_config_text_at(const struct kw_config *config, const char *path, size_t index)
{
	const char *text =
		json_string_value(json_array_get(value_of(config, path, TYPE(TEXTS)), index));

	return text ? text : "";
}

int64_t kw_config_integer_at(const struct kw_config *config, const char *path, size_t index)
{
	return json_integer_value(json_array_get(value_of(config, path, TYPE(INTEGERS)), index));
}

int kw_config_check_path(const struct kw_config *config, const char *path, struct kw_error *error)
{
	if (kw_config_find(config, path) < config->count || kw_config_is_group(config, path))
		return 0;
	return kw_config_unknown(config, path, error);
}

/* Hang value into the tree at its dotted path, making the objects on the way. */
static void hang(json_t *root, const char *path, json_t *value)
{
	json_t *object = root;
	const char *dot;

	while ((dot = strchr(path, '.'))) {
		size_t length = (size_t)(dot - path);
		char name[KW_CONFIG_PATH_MAX];
		json_t *inner;

		snprintf(name, sizeof name, "%.*s", (int)length, path);
		inner = json_object_get(object, name);
		if (!inner) {
			inner = json_object();
			json_object_set_new(object, name, inner);
		}
		object = inner;
		path = dot + 1;
	}
	if (value)
		json_object_set(object, path, value);
	else
		json_object_set_new(object, path, json_null());
}

/* Keys under prefix ("" for all), as nested objects relative to it. */
static json_t *tree(const struct kw_config *config, const char *prefix)
{
	size_t length = strlen(prefix);
	json_t *root = json_object();

	for (size_t i = 0; i < config->count; i++) {
		const char *path = config->keys[i].path;

		if (length == 0)
			hang(root, path, config->slots[i].value);
		else if (strncmp(path, prefix, length) == 0 && path[length] == '.')
			hang(root, path + length + 1, config->slots[i].value);
	}
	return root;
}

void kw_config_json(const struct kw_config *config, const char *path_or_null, struct kw_buffer *out)
{
	const char *path = path_or_null ? path_or_null : "";
	size_t index = kw_config_find(config, path);
	json_t *json;
	char *text;

	if (index < config->count)
		json = config->slots[index].value ? json_incref(config->slots[index].value)
						  : json_null();
	else if (*path == '\0' || kw_config_is_group(config, path))
		json = tree(config, path);
	else
		json = json_null();
	text = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT | KW_JSON_DIGITS);
	if (text)
		kw_buffer_append(out, text, strlen(text));
	free(text);
	json_decref(json);
}

static bool is_in(const char *key, const char *path)
{
	const size_t length = strlen(path);

	return length == 0 ||
	       (strncmp(key, path, length) == 0 && (key[length] == '.' || key[length] == '\0'));
}

void kw_config_sources_json(
	const struct kw_config *config, const char *path_or_null, struct kw_buffer *out)
{
	json_t *sources = json_object();
	char *text;

	for (size_t i = 0; i < config->count; i++) {
		const struct kw_config_slot *slot = &config->slots[i];
		const char *source = json_string_value(slot->source);

		if (is_in(config->keys[i].path, path_or_null ? path_or_null : ""))
			json_object_set_new(sources, config->keys[i].path,
				json_pack("{s:O?,s:s}", "value", slot->value, "source",
					source ? source : "default"));
	}
	text = json_dumps(sources, JSON_COMPACT | KW_JSON_DIGITS);
	kw_buffer_append(out, text, strlen(text));
	free(text);
	json_decref(sources);
}
