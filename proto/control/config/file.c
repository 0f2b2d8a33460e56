/* The configuration file: JSON, nested objects for dotted paths. */
#include "control/config/internal.h"
#include "control/config/small_file.h"

#include "control/nearest.h"

#include <stdlib.h>
#include <string.h>

#define PASSED_OVER_BYTES 1000 /* of names; those of further keys are left out */

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

/* The known key that this one may be a typo of; NULL: none is like it. */
static const char *nearest_to(const struct kw_config *config, const char *path)
{
	struct kw_nearest nearest;

	kw_nearest_init(&nearest, path);
	for (size_t i = 0; i < config->count; i++)
		kw_nearest_try_path(&nearest, config->keys[i].path);
	return kw_nearest_word(&nearest);
}

int kw_config_unknown(const struct kw_config *config, const char *path, struct kw_error *error)
{
	const char *best;

	if (kw_config_is_group(config, path))
		return kw_error_set(error, KW_E_CONFIG,
			"%s is a group of keys, not a key: use %s.KEY, or {\"%s\": {\"KEY\": ...}}",
			path, path, path);
	best = nearest_to(config, path);
	if (best)
		return kw_error_set(error, KW_E_CONFIG, "unknown key %.*s: did you mean %s?",
			KW_CONFIG_PATH_MAX, path, best);
	return kw_error_set(error, KW_E_CONFIG, "unknown key %.*s (--help-config lists all keys)",
		KW_CONFIG_PATH_MAX, path);
}

/* These say what is followed, who may read it, and what is deleted. */
static const char *const weighty[] = {
	"redis", "auth", "tls", "sentinel", "authority", "source", "apply", "filter"};

bool kw_config_is_weighty(const char *group, size_t length)
{
	for (size_t i = 0; i < sizeof weighty / sizeof *weighty; i++)
		if (strlen(weighty[i]) == length && memcmp(weighty[i], group, length) == 0)
			return true;
	return false;
}

void kw_config_put_passed_over(struct kw_config *config, const char *name)
{
	struct kw_buffer *names = &config->passed_over;
	const size_t length = kw_buffer_length(names);

	if (length == 0)
		kw_buffer_printf(names, "%s", name);
	else if (length < PASSED_OVER_BYTES)
		kw_buffer_printf(names, ", %s", name);
}

/* A key of a later version, or of none. */
static int pass_over(struct kw_config *config, const char *path, struct kw_error *error)
{
	if (kw_config_is_weighty(path, strcspn(path, ".")) || kw_config_is_group(config, path) ||
		nearest_to(config, path))
		return kw_config_unknown(config, path, error);
	kw_config_put_passed_over(config, path);
	return KW_OK;
}

/* A file is read again for what is saved: what was told is not told again. */
void kw_config_mistake(struct kw_config_mistakes *mistakes, const struct kw_error *error)
{
	for (size_t i = 0; i < mistakes->count && i < KW_CONFIG_MISTAKES_MAX; i++)
		if (strcmp(mistakes->list[i].text, error->text) == 0)
			return;
	if (mistakes->count < KW_CONFIG_MISTAKES_MAX)
		mistakes->list[mistakes->count] = *error;
	mistakes->count++;
}

struct walk {
	struct kw_config *config;
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
			code = pass_over(walk->config, path, walk->error);
		if (code && !walk->config->mistakes)
			return code;
		if (code)
			kw_config_mistake(walk->config->mistakes, walk->error);
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
	struct kw_config *config, const char *file, json_t **values, struct kw_error *error)
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
