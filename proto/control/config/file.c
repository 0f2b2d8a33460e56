/*
 * The configuration file: JSON with comments, nested objects for dotted paths. "include" names more
 * such files. Each of them is read after the file that names it, in the order of the list, and with
 * all that it includes itself: what is read later counts.
 */
#include "control/config/internal.h"
#include "control/config/small_file.h"

#include "control/json_comments.h"
#include "control/json_text.h"
#include "control/nearest.h"

#include <stdlib.h>
#include <string.h>

#define INCLUDE "include"
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

	if (strcmp(path, INCLUDE) == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"include stands at the top of a configuration file, and nowhere else");
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

/* A file, and above it those that include it. */
struct link {
	const struct link *above; /* NULL: it is the first */
	const char *file;
	char *real; /* without links and dots; NULL: it has no such name */
	size_t depth;
};

/* One file and all that it includes. */
struct reading {
	struct kw_config *config;
	struct kw_config_slot *slots;
	enum kw_config_origin origin;
	size_t files; /* read so far */
	struct kw_error *error;
};

struct walk {
	struct reading *reading;
	const struct link *link;
	json_t *source;
	bool *seen; /* for each key; a dotted name and a nested one can mean the same */
};

static int take_value(struct walk *walk, size_t index, json_t *given)
{
	const struct kw_config_key *key = &walk->reading->config->keys[index];
	struct kw_error *error = walk->reading->error;
	json_t *value;
	int code;

	if (walk->seen[index])
		return kw_error_set(error, KW_E_CONFIG, "%s is given twice", key->path);
	walk->seen[index] = true;
	code = kw_config_value_check(key, given, &value, error);
	if (!code)
		kw_config_put(&walk->reading->slots[index], value, walk->source);
	return code;
}

/* A key of a later version, or of none. */
static int pass_over(const struct walk *walk, const char *path)
{
	struct kw_config *config = walk->reading->config;
	struct kw_buffer name = {0};

	if (kw_config_is_weighty(path, strcspn(path, ".")) || kw_config_is_group(config, path) ||
		strcmp(path, INCLUDE) == 0 || nearest_to(config, path))
		return kw_config_unknown(config, path, walk->reading->error);
	kw_buffer_printf(&name, walk->link->above ? "%s (%s)" : "%s", path, walk->link->file);
	kw_config_put_passed_over(config, (const char *)kw_buffer_bytes(&name));
	kw_buffer_close(&name);
	return KW_OK;
}

/* A mistake in the file: it ends the reading, or is one of all that a person is told. */
static int told(struct reading *reading, const struct link *link)
{
	kw_error_wrap(reading->error, "%s", link->file);
	if (!reading->config->mistakes)
		return KW_E_CONFIG;
	kw_config_mistake(reading->config->mistakes, reading->error);
	return KW_OK;
}

/* The depth is bounded by the known groups: an unknown name ends the walk before its members. */
static int walk_object(struct walk *walk, const char *prefix, json_t *object)
{
	struct kw_config *config = walk->reading->config;
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
	{
		char path[KW_CONFIG_PATH_MAX];
		size_t index;
		int code, length;

		length = snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", name);
		if (length < 0 || (size_t)length >= sizeof path) {
			code = kw_error_set(walk->reading->error, KW_E_CONFIG,
				"unknown key %.60s...: no key is that long", path);
		} else if ((index = kw_config_find(config, path)) < config->count) {
			code = take_value(walk, index, value);
		} else if (kw_config_is_group(config, path) && json_is_object(value)) {
			if (walk_object(walk, path, value))
				return KW_E_CONFIG;
			continue;
		} else {
			code = pass_over(walk, path);
		}
		if (code && told(walk->reading, walk->link))
			return KW_E_CONFIG;
	}
	return KW_OK;
}

static int parse(const char *file, struct kw_buffer *text, json_t **root, struct kw_error *error)
{
	size_t length = kw_buffer_length(text);
	char *bytes = (char *)text->data + text->start;
	struct kw_json_place open;
	json_error_t where;

	if (length > 0 &&
		kw_json_blank_comments(bytes, &length, &open) == KW_JSON_COMMENTS_UNCLOSED)
		return kw_error_set(error, KW_E_CONFIG,
			"%s: line %zu, column %zu: a comment begins here and has no end: close it "
			"by */",
			file, open.line, open.column);
	*root = json_loadb(
		length > 0 ? bytes : "", length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
	if (!*root)
		return kw_error_set(error, KW_E_CONFIG, "%s: line %d, column %d: not JSON: %s",
			file, where.line, where.column, where.text);
	if (json_is_object(*root))
		return KW_OK;
	json_decref(*root);
	*root = NULL;
	return kw_error_set(error, KW_E_CONFIG,
		"%s: line 1: expected one JSON object, like {\"log\": {\"level\": \"info\"}}",
		file);
}

static int read_values(struct reading *reading, const struct link *link, json_t *root)
{
	struct walk walk = {.reading = reading, .link = link};
	int code;

	walk.source = kw_json_text(link->file);
	walk.seen = kw_zalloc(reading->config->count * sizeof *walk.seen + 1);
	code = walk_object(&walk, "", root);
	free(walk.seen);
	json_decref(walk.source);
	return code;
}

static bool is_above(const struct link *link)
{
	for (const struct link *at = link->above; at; at = at->above)
		if (at->real && link->real && strcmp(at->real, link->real) == 0)
			return true;
	return false;
}

/* May this file be read, too? The sentence names the file that includes it. */
static int admit(struct reading *reading, const struct link *link)
{
	const char *by = link->above ? link->above->file : "";

	if (is_above(link))
		return kw_error_set(reading->error, KW_E_CONFIG,
			"%s: include: %s is being read already, so it would include itself without "
			"end: take it out of this list",
			by, link->file);
	if (link->depth > KW_CONFIG_INCLUDE_DEPTH)
		return kw_error_set(reading->error, KW_E_CONFIG,
			"%s: include: %s is the %zuth in a row of files that include each other; "
			"at most %d: name it in the first file",
			by, link->file, link->depth, KW_CONFIG_INCLUDE_DEPTH);
	if (reading->files == KW_CONFIG_FILES_MAX)
		return kw_error_set(reading->error, KW_E_CONFIG,
			"%s: include: %s would be one file more than the %d that are read: join "
			"some of them",
			by, link->file, KW_CONFIG_FILES_MAX);
	reading->files++;
	return KW_OK;
}

static int read_one(struct reading *reading, const struct link *above, const char *file);

static int read_included(struct reading *reading, const struct link *link, const json_t *given)
{
	struct kw_config_included included = {0};
	int code = KW_OK;

	if (kw_config_included_find(link->file, given, &included, reading->error))
		return told(reading, link);
	for (size_t i = 0; !code && i < included.count; i++) {
		code = read_one(reading, link, included.files[i]);
		if (code && reading->config->mistakes) {
			kw_config_mistake(reading->config->mistakes, reading->error);
			code = KW_OK;
		}
	}
	kw_config_included_free(&included);
	return code;
}

static int read_linked(struct reading *reading, const struct link *link)
{
	struct kw_buffer text = {0};
	json_t *root = NULL, *include = NULL;
	int code = admit(reading, link);

	if (code)
		return code;
	code = kw_small_file_read(link->file, KW_CONFIG_FILE_MAX,
		reading->origin == KW_CONFIG_KEPT ? KW_FILE_OWN : KW_FILE_ANY,
		"the configuration file", &text, reading->error);
	if (code && link->above)
		kw_error_wrap(reading->error, "%s: include", link->above->file);
	if (!code)
		code = parse(link->file, &text, &root, reading->error);
	kw_buffer_close(&text);
	if (code)
		return code;
	if (reading->origin == KW_CONFIG_WRITTEN) {
		include = json_incref(json_object_get(root, INCLUDE));
		json_object_del(root, INCLUDE);
	}
	code = read_values(reading, link, root);
	json_decref(root);
	if (!code && include)
		code = read_included(reading, link, include);
	json_decref(include);
	return code;
}

static int read_one(struct reading *reading, const struct link *above, const char *file)
{
	struct link link = {
		.above = above,
		.file = file,
		.real = realpath(file, NULL),
		.depth = above ? above->depth + 1 : 1,
	};
	int code = read_linked(reading, &link);

	free(link.real);
	return code;
}

int kw_config_file_read(struct kw_config *config, const char *file, enum kw_config_origin origin,
	struct kw_config_slot *slots, struct kw_error *error)
{
	struct reading reading = {
		.config = config,
		.slots = slots,
		.origin = origin,
		.error = error,
	};

	return read_one(&reading, NULL, file);
}
