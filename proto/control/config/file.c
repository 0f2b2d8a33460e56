/* The configuration file: JSON, nested objects for dotted paths. */
#include "control/config/internal.h"
#include "control/config/small_file.h"

#include "control/nearest.h"

#include <stdlib.h>
#include <string.h>

size_t kw_config_find(const struct kw_config *config, const char *path)
{
	size_t index;

	for (index = 0; index < config->count; index++)
		if (strcmp(config->keys[index].path, path) == 0)
			break;
	return index;
}

bool kw_config_is_group(const struct kw_config *config, const char *path)
{
	size_t length = strlen(path);

	for (size_t i = 0; i < config->count; i++)
		if (strncmp(config->keys[i].path, path, length) == 0 &&
			config->keys[i].path[length] == '.')
			return true;
	return false;
}

int kw_config_unknown(const struct kw_config *config, const char *path, struct kw_error *error)
{
	struct kw_nearest nearest;
	const char *best;

	if (kw_config_is_group(config, path))
		return kw_error_set(error, KW_E_CONFIG,
			"%s is a group of keys, not a key: use %s.KEY, or {\"%s\": {\"KEY\": ...}}",
			path, path, path);
	kw_nearest_init(&nearest, path);
	for (size_t i = 0; i < config->count; i++)
		kw_nearest_try_path(&nearest, config->keys[i].path);
	best = kw_nearest_word(&nearest);
	if (best)
		return kw_error_set(error, KW_E_CONFIG, "unknown key %.*s: did you mean %s?",
			KW_CONFIG_PATH_MAX, path, best);
	return kw_error_set(error, KW_E_CONFIG, "unknown key %.*s (--help-config lists all keys)",
		KW_CONFIG_PATH_MAX, path);
}

struct walk {
	const struct kw_config *config;
	json_t **values;
	bool *seen; /* for each key; a dotted name and a nested one can mean the same */
	struct kw_error *error;
};

static int take_value(struct walk *walk, size_t index, json_t *given)
{
	const struct kw_config_key *key = &walk->config->keys[index];
	json_t *value;
	int code;

	if (walk->seen[index])
		return kw_error_set(walk->error, KW_E_CONFIG, "%s is given twice", key->path);
	walk->seen[index] = true;
	code = kw_config_value_check(key, given, &value, walk->error);
	if (code)
		return code;
	json_decref(walk->values[index]);
	walk->values[index] = value;
	return 0;
}

/* The depth is bounded by the known groups: an unknown name ends the walk before its members. */
static int walk_object(struct walk *walk, const char *prefix, json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
	{
		char path[KW_CONFIG_PATH_MAX];
		size_t index;
		int code, length;

		length = snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", name);
		if (length < 0 || (size_t)length >= sizeof path)
			return kw_error_set(walk->error, KW_E_CONFIG,
				"unknown key %.60s...: no key is that long", path);
		index = kw_config_find(walk->config, path);
		if (index < walk->config->count)
			code = take_value(walk, index, value);
		else if (kw_config_is_group(walk->config, path) && json_is_object(value))
			code = walk_object(walk, path, value);
		else
			code = kw_config_unknown(walk->config, path, walk->error);
		if (code)
			return code;
	}
	return 0;
}

static int parse_file(
	const char *file, const struct kw_buffer *text, json_t **root, struct kw_error *error)
{
	json_error_t where;

	*root = json_loadb((const char *)kw_buffer_bytes(text), kw_buffer_length(text),
		JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
	if (!*root)
		return kw_error_set(error, KW_E_CONFIG, "%s: line %d, column %d: not JSON: %s",
			file, where.line, where.column, where.text);
	if (!json_is_object(*root)) {
		json_decref(*root);
		return kw_error_set(error, KW_E_CONFIG,
			"%s: line 1: expected one JSON object, like {\"log\": {\"level\": "
			"\"info\"}}",
			file);
	}
	return 0;
}

int kw_config_file_read(
	const struct kw_config *config, const char *file, json_t **values, struct kw_error *error)
{
	struct walk walk = {.config = config, .values = values, .error = error};
	struct kw_buffer text = {0};
	json_t *root = NULL;
	int code;

	code = kw_small_file_read(
		file, KW_CONFIG_FILE_MAX, KW_FILE_ANY, "the configuration file", &text, error);
	if (!code)
		code = parse_file(file, &text, &root, error);
	kw_buffer_close(&text);
	if (code)
		return code;
	walk.seen = kw_zalloc(config->count * sizeof *walk.seen + 1);
	code = walk_object(&walk, "", root);
	if (code)
		kw_error_wrap(error, "%s", file);
	free(walk.seen);
	json_decref(root);
	return code;
}
