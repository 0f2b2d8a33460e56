/*
 * Where values come from, later over earlier: fallbacks, the file, the environment (environment.c),
 * what was saved (saved.c), --set in the order given. What config.set changed and did not save
 * lasts until the next reload.
 */
#include "control/config/internal.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static void values_free(json_t **values, size_t count)
{
	for (size_t i = 0; values && i < count; i++)
		json_decref(values[i]);
	free(values);
}

static json_t **values_copy(json_t *const *values, size_t count)
{
	json_t **copy = kw_zalloc((count + 1) * sizeof *copy);

	for (size_t i = 0; i < count; i++)
		copy[i] = json_incref(values[i]);
	return copy;
}

/* A table of keys that contradicts itself is a bug of ours: it shows at the first start. */
static json_t *fallback_value(const struct kw_config_key *key)
{
	struct kw_config_key unbounded = *key;
	struct kw_error error;
	json_t *given, *value;

	if (!key->fallback)
		return NULL;
	/* A fallback can lie outside what may be set: "" or 0 for "off". */
	unbounded.lowest = unbounded.highest = 0;
	unbounded.choices = NULL;
	given = json_loads(key->fallback, JSON_DECODE_ANY, NULL);
	if (!given || kw_config_value_check(&unbounded, given, &value, &error)) {
		kw_log_error("config", "BUG: the fallback of %s is not a %s: %s", key->path,
			kw_config_type_name(key->type), key->fallback);
		abort();
	}
	json_decref(given);
	return value;
}

static json_t **values_fallback(const struct kw_config *config)
{
	json_t **values = kw_zalloc((config->count + 1) * sizeof *values);

	for (size_t i = 0; i < config->count; i++)
		values[i] = fallback_value(&config->keys[i]);
	return values;
}

static void values_replace(struct kw_config *config, json_t **values)
{
	values_free(config->values, config->count);
	config->values = values;
}

struct kw_config *kw_config_new(const struct kw_config_key *keys)
{
	struct kw_config *config = kw_zalloc(sizeof *config);

	config->keys = keys;
	while (keys[config->count].path)
		config->count++;
	config->values = values_fallback(config);
	return config;
}

void kw_config_free(struct kw_config *config)
{
	if (!config)
		return;
	values_free(config->values, config->count);
	for (size_t i = 0; i < config->assignment_count; i++)
		free(config->assignments[i]);
	for (size_t i = 0; i < config->variable_count; i++)
		free(config->variables[i]);
	kw_buffer_close(&config->passed_over);
	free(config->file);
	free(config);
}

const char *kw_config_passed_over(const struct kw_config *config)
{
	return kw_buffer_length(&config->passed_over)
		       ? (const char *)kw_buffer_bytes(&config->passed_over)
		       : "";
}

/* "path.to.key=VALUE" into values. */
static int assign(const struct kw_config *config, const char *assignment, json_t **values,
	struct kw_error *error)
{
	const char *equals = strchr(assignment, '=');
	char path[KW_CONFIG_PATH_MAX];
	json_t *value;
	size_t index;
	int code;

	if (!equals || equals == assignment)
		return kw_error_set(error, KW_E_CONFIG,
			"--set %.100s: expected KEY=VALUE, like log.level=debug", assignment);
	if ((size_t)(equals - assignment) >= sizeof path)
		return kw_error_set(
			error, KW_E_CONFIG, "--set %.60s...: no key is that long", assignment);
	memcpy(path, assignment, (size_t)(equals - assignment));
	path[equals - assignment] = '\0';
	index = kw_config_find(config, path);
	if (index == config->count)
		code = kw_config_unknown(config, path, error);
	else
		code = kw_config_value_parse(&config->keys[index], equals + 1, &value, error);
	if (code) {
		kw_error_wrap(error, "--set");
		return code;
	}
	json_decref(values[index]);
	values[index] = value;
	return 0;
}

/* The sources. saved: NULL, or the file of saved values. */
static int values_read(struct kw_config *config, const char *file, const char *saved,
	json_t ***built, struct kw_error *error)
{
	json_t **values = values_fallback(config);
	int code = 0;

	kw_buffer_clear(&config->passed_over);
	if (file)
		code = kw_config_file_read(config, file, values, error);
	if (!code)
		code = kw_config_environment_read(config, values, error);
	if (!code && saved) {
		code = kw_config_file_read(config, saved, values, error);
		if (code)
			kw_error_wrap(error, "saved values (delete the file, or correct it)");
	}
	for (size_t i = 0; !code && i < config->assignment_count; i++)
		code = assign(config, config->assignments[i], values, error);
	if (code) {
		values_free(values, config->count);
		return code;
	}
	*built = values;
	return 0;
}

/* All sources anew. Where the saved values are is said by the others. */
static int values_build(
	struct kw_config *config, const char *file, json_t ***built, struct kw_error *error)
{
	json_t **values;
	int code = values_read(config, file, NULL, &values, error);
	const char *saved;

	if (code)
		return code;
	saved = kw_config_saved_file(config, values);
	if (!kw_config_has_saved(saved)) {
		*built = values;
		return 0;
	}
	code = values_read(config, file, saved, built, error);
	values_free(values, config->count);
	return code;
}

int kw_config_load(struct kw_config *config, const char *file, struct kw_error *error)
{
	json_t **values;
	int code = values_build(config, file, &values, error);

	if (code)
		return code;
	values_replace(config, values);
	free(config->file);
	config->file = kw_strdup(file);
	return 0;
}

int kw_config_load_environment(
	struct kw_config *config, const char *const *environment, struct kw_error *error)
{
	json_t **values;
	int code = kw_config_environment_keep(config, environment, error);

	if (!code)
		code = values_build(config, config->file, &values, error);
	if (!code)
		values_replace(config, values);
	return code;
}

int kw_config_set(struct kw_config *config, const char *assignment, struct kw_error *error)
{
	json_t **values;
	int code;

	if (config->assignment_count == KW_CONFIG_ASSIGNMENTS_MAX)
		return kw_error_set(error, KW_E_CONFIG,
			"more than %d --set: put the configuration into a file (--config)",
			KW_CONFIG_ASSIGNMENTS_MAX);
	values = values_copy(config->values, config->count);
	code = assign(config, assignment, values, error);
	if (code) {
		values_free(values, config->count);
		return code;
	}
	values_replace(config, values);
	config->assignments[config->assignment_count++] = kw_strdup(assignment);
	return 0;
}

int kw_config_load_saved(struct kw_config *config, struct kw_error *error)
{
	json_t **values;
	int code = values_build(config, config->file, &values, error);

	if (!code)
		values_replace(config, values);
	return code;
}

static bool is_empty(const json_t *value)
{
	if (json_is_string(value))
		return json_string_length(value) == 0;
	return !value || (json_is_array(value) && json_array_size(value) == 0);
}

static int check_complete(
	const struct kw_config *config, json_t *const *values, struct kw_error *error)
{
	for (size_t i = 0; i < config->count; i++) {
		const struct kw_config_key *key = &config->keys[i];

		if (!key->fallback && is_empty(values[i]))
			return kw_error_set(error, KW_E_CONFIG,
				"%s is missing (%.*s): set it in the configuration file or by "
				"--set %s=VALUE",
				key->path, (int)strcspn(key->doc, "."), key->doc, key->path);
	}
	return 0;
}

void kw_config_set_rule(struct kw_config *config, kw_config_rule_fn rule)
{
	config->rule = rule;
}

/* Could a daemon be started with these values? */
static int check_values(const struct kw_config *config, json_t **values, struct kw_error *error)
{
	struct kw_config asked = *config;
	int code = check_complete(config, values, error);

	asked.values = values;
	return code || !config->rule ? code : config->rule(&asked, error);
}

int kw_config_complete(const struct kw_config *config, struct kw_error *error)
{
	return check_values(config, config->values, error);
}

/*
 * Put values in the place of the present ones and tell of each difference. If one is refused, the
 * old values come back, and the keys already told are told again.
 */
static int switch_to(struct kw_config *config, json_t **values, kw_config_changed_fn changed,
	void *arg, struct kw_error *error)
{
	json_t **old = config->values;
	size_t refused = config->count;
	int code = 0;

	config->values = values;
	for (size_t i = 0; changed && i < config->count; i++) {
		if (json_equal(old[i], values[i]))
			continue;
		code = changed(arg, config->keys[i].path, error);
		if (code) {
			kw_error_wrap(error, "%s", config->keys[i].path);
			refused = i;
			break;
		}
	}
	if (!code) {
		values_free(old, config->count);
		return 0;
	}
	config->values = old;
	for (size_t i = 0; i < refused; i++)
		if (!json_equal(old[i], values[i]))
			changed(arg, config->keys[i].path, NULL);
	values_free(values, config->count);
	return code;
}

/* Keys that need a restart keep their value; name them. */
static void keep_fixed(const struct kw_config *config, json_t **values, struct kw_buffer *notes)
{
	bool first = true;

	for (size_t i = 0; i < config->count; i++) {
		if (config->keys[i].live || json_equal(config->values[i], values[i]))
			continue;
		json_decref(values[i]);
		values[i] = json_incref(config->values[i]);
		if (notes)
			kw_buffer_printf(notes, "%s%s", first ? "" : ", ", config->keys[i].path);
		first = false;
	}
}

int kw_config_reload(struct kw_config *config, kw_config_changed_fn changed, void *arg,
	struct kw_buffer *notes, struct kw_error *error)
{
	json_t **values;
	int code = values_build(config, config->file, &values, error);

	if (code)
		return code;
	/* All of the file, for a restart; and the part that takes effect now. */
	code = check_values(config, values, error);
	if (code)
		goto refused;
	keep_fixed(config, values, notes);
	code = check_values(config, values, error);
	if (code) {
		kw_error_wrap(error, "without the keys that only a restart takes up");
		goto refused;
	}
	return switch_to(config, values, changed, arg, error);
refused:
	values_free(values, config->count);
	return code;
}

/* The values with this one among them, if a daemon could run with them. */
static int values_with(const struct kw_config *config, size_t index, const char *value,
	json_t ***built, struct kw_error *error)
{
	json_t *parsed, **values;
	int code = kw_config_value_parse(&config->keys[index], value, &parsed, error);

	if (code)
		return code;
	values = values_copy(config->values, config->count);
	json_decref(values[index]);
	values[index] = parsed;
	code = check_values(config, values, error);
	if (code)
		values_free(values, config->count);
	else
		*built = values;
	return code;
}

static int check_live(const struct kw_config *config, const char *path, struct kw_error *error)
{
	size_t index = kw_config_find(config, path);

	if (index == config->count)
		return kw_config_unknown(config, path, error);
	if (config->keys[index].live)
		return KW_OK;
	return kw_error_set(error, KW_E_STATE,
		"%s cannot change while running: set it in %s and start again", path,
		kw_config_in_environment(config, path) ? "the environment"
		: config->file                         ? config->file
						       : "the configuration file or by --set");
}

int kw_config_change(struct kw_config *config, const char *path, const char *value,
	kw_config_changed_fn changed, void *arg, struct kw_error *error)
{
	json_t **values;
	int code = check_live(config, path, error);

	if (!code)
		code = values_with(config, kw_config_find(config, path), value, &values, error);
	return code ? code : switch_to(config, values, changed, arg, error);
}

int kw_config_change_and_save(struct kw_config *config, const char *path, const char *value,
	kw_config_changed_fn changed, void *arg, struct kw_error *error)
{
	size_t index = kw_config_find(config, path);
	json_t **values, *before;
	int code = check_live(config, path, error);

	if (code || (code = kw_config_may_save(config, path, error)) ||
		(code = values_with(config, index, value, &values, error)))
		return code;
	code = kw_config_write_saved(config, path, values[index], error);
	if (code) {
		values_free(values, config->count);
		return code;
	}
	before = json_incref(config->values[index]);
	code = switch_to(config, values, changed, arg, error);
	if (code)
		kw_config_write_saved(config, path, before, NULL);
	json_decref(before);
	return code;
}

int kw_config_save(
	struct kw_config *config, const char *path, const char *value, struct kw_error *error)
{
	size_t index = kw_config_find(config, path);
	json_t **values;
	int code = kw_config_may_save(config, path, error);

	if (code || (code = values_with(config, index, value, &values, error)))
		return code;
	code = kw_config_write_saved(config, path, values[index], error);
	if (code)
		values_free(values, config->count);
	else
		values_replace(config, values);
	return code;
}
