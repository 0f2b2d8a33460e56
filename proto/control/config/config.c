/*
 * Where values come from, later over earlier: fallbacks, the file with those that it
 * includes (file.c), the environment (environment.c), what was saved (saved.c), --set in the order
 * given. What config.set changed and did not save
 * lasts until the next reload.
 */
#include "control/config/internal.h"

#include "control/json_text.h"

#include <stdlib.h>
#include <string.h>

static void slots_replace(struct kw_config *config, struct kw_config_slot *slots)
{
	kw_config_slots_free(config, config->slots);
	config->slots = slots;
}

/* The source of what config.set changed and did not save. */
#define CHANGED "config set"

/* value: taken */
static void put_named(struct kw_config_slot *slot, json_t *value, const char *source)
{
	json_t *text = kw_json_text(source);

	kw_config_put(slot, value, text);
	json_decref(text);
}

struct kw_config *kw_config_new(const struct kw_config_key *keys)
{
	struct kw_config *config = kw_zalloc(sizeof *config);

	config->keys = keys;
	while (keys[config->count].path)
		config->count++;
	config->slots = kw_config_slots_new(config);
	return config;
}

void kw_config_free(struct kw_config *config)
{
	if (!config)
		return;
	kw_config_slots_free(config, config->slots);
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

/* "path.to.key=VALUE" into slots. */
static int assign(const struct kw_config *config, const char *assignment,
	struct kw_config_slot *slots, struct kw_error *error)
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
	put_named(&slots[index], value, "--set");
	return 0;
}

/* The sources. saved: NULL, or the file of saved values. */
static int slots_read(struct kw_config *config, const char *file, const char *saved,
	struct kw_config_slot **built, struct kw_error *error)
{
	struct kw_config_slot *slots = kw_config_slots_new(config);
	int code = 0;

	kw_buffer_clear(&config->passed_over);
	if (file)
		code = kw_config_file_read(config, file, KW_CONFIG_WRITTEN, slots, error);
	if (!code)
		code = kw_config_environment_read(config, slots, error);
	if (!code && saved) {
		code = kw_config_file_read(config, saved, KW_CONFIG_KEPT, slots, error);
		if (code)
			kw_error_wrap(error, "saved values (delete the file, or correct it)");
	}
	for (size_t i = 0; !code && i < config->assignment_count; i++)
		code = assign(config, config->assignments[i], slots, error);
	if (code) {
		kw_config_slots_free(config, slots);
		return code;
	}
	*built = slots;
	return 0;
}

/* All sources anew. Where the saved values are is said by the others. */
static int slots_build(struct kw_config *config, const char *file, struct kw_config_slot **built,
	struct kw_error *error)
{
	struct kw_config_slot *slots;
	int code = slots_read(config, file, NULL, &slots, error);
	const char *saved;

	if (code)
		return code;
	saved = kw_config_saved_file(config, slots);
	if (!kw_config_has_saved(saved)) {
		*built = slots;
		return 0;
	}
	code = slots_read(config, file, saved, built, error);
	kw_config_slots_free(config, slots);
	return code;
}

int kw_config_load(struct kw_config *config, const char *file, struct kw_error *error)
{
	struct kw_config_slot *slots;
	int code = slots_build(config, file, &slots, error);

	if (code)
		return code;
	slots_replace(config, slots);
	free(config->file);
	config->file = kw_strdup(file);
	return 0;
}

int kw_config_load_environment(
	struct kw_config *config, const char *const *environment, struct kw_error *error)
{
	struct kw_config_slot *slots;
	int code = kw_config_environment_keep(config, environment, error);

	if (!code)
		code = slots_build(config, config->file, &slots, error);
	if (!code)
		slots_replace(config, slots);
	return code;
}

int kw_config_set(struct kw_config *config, const char *assignment, struct kw_error *error)
{
	struct kw_config_slot *slots;
	int code;

	if (config->assignment_count == KW_CONFIG_ASSIGNMENTS_MAX)
		return kw_error_set(error, KW_E_CONFIG,
			"more than %d --set: put the configuration into a file (--config)",
			KW_CONFIG_ASSIGNMENTS_MAX);
	slots = kw_config_slots_copy(config);
	code = assign(config, assignment, slots, error);
	if (code) {
		kw_config_slots_free(config, slots);
		return code;
	}
	slots_replace(config, slots);
	config->assignments[config->assignment_count++] = kw_strdup(assignment);
	return 0;
}

int kw_config_load_saved(struct kw_config *config, struct kw_error *error)
{
	struct kw_config_slot *slots;
	int code = slots_build(config, config->file, &slots, error);

	if (!code)
		slots_replace(config, slots);
	return code;
}

static bool is_empty(const json_t *value)
{
	if (json_is_string(value))
		return json_string_length(value) == 0;
	return !value || (json_is_array(value) && json_array_size(value) == 0);
}

static int check_complete(
	const struct kw_config *config, const struct kw_config_slot *slots, struct kw_error *error)
{
	int code = KW_OK;

	for (size_t i = 0; i < config->count; i++) {
		const struct kw_config_key *key = &config->keys[i];

		if (key->fallback || !is_empty(slots[i].value))
			continue;
		code = kw_error_set(error, KW_E_CONFIG,
			"%s is missing (%.*s): set it in the configuration file or by "
			"--set %s=VALUE",
			key->path, (int)strcspn(key->doc, "."), key->doc, key->path);
		if (!config->mistakes)
			return code;
		kw_config_mistake(config->mistakes, error);
	}
	return code;
}

void kw_config_set_rule(struct kw_config *config, kw_config_rule_fn rule)
{
	config->rule = rule;
}

/* Could a daemon be started with these values? */
static int check_slots(
	const struct kw_config *config, struct kw_config_slot *slots, struct kw_error *error)
{
	struct kw_config asked = *config;
	int code = check_complete(config, slots, error);

	asked.slots = slots;
	return code || !config->rule ? code : config->rule(&asked, error);
}

int kw_config_complete(const struct kw_config *config, struct kw_error *error)
{
	return check_slots(config, config->slots, error);
}

/*
 * Put values in the place of the present ones and tell of each difference. If one is refused, the
 * old values come back, and the keys already told are told again.
 */
static int switch_to(struct kw_config *config, struct kw_config_slot *slots,
	kw_config_changed_fn changed, void *arg, struct kw_error *error)
{
	struct kw_config_slot *old = config->slots;
	size_t refused = config->count;
	int code = 0;

	config->slots = slots;
	for (size_t i = 0; changed && i < config->count; i++) {
		if (json_equal(old[i].value, slots[i].value))
			continue;
		code = changed(arg, config->keys[i].path, error);
		if (code) {
			kw_error_wrap(error, "%s", config->keys[i].path);
			refused = i;
			break;
		}
	}
	if (!code) {
		kw_config_slots_free(config, old);
		return 0;
	}
	config->slots = old;
	for (size_t i = 0; i < refused; i++)
		if (!json_equal(old[i].value, slots[i].value))
			changed(arg, config->keys[i].path, NULL);
	kw_config_slots_free(config, slots);
	return code;
}

/* Keys that need a restart keep their value; name them. */
static void keep_fixed(
	const struct kw_config *config, struct kw_config_slot *slots, struct kw_buffer *notes)
{
	bool first = true;

	for (size_t i = 0; i < config->count; i++) {
		if (config->keys[i].live || json_equal(config->slots[i].value, slots[i].value))
			continue;
		kw_config_put(
			&slots[i], json_incref(config->slots[i].value), config->slots[i].source);
		if (notes)
			kw_buffer_printf(notes, "%s%s", first ? "" : ", ", config->keys[i].path);
		first = false;
	}
}

int kw_config_reload(struct kw_config *config, kw_config_changed_fn changed, void *arg,
	struct kw_buffer *notes, struct kw_error *error)
{
	struct kw_config_slot *slots;
	int code = slots_build(config, config->file, &slots, error);

	if (code)
		return code;
	/* All of the file, for a restart; and the part that takes effect now. */
	code = check_slots(config, slots, error);
	if (code)
		goto refused;
	keep_fixed(config, slots, notes);
	code = check_slots(config, slots, error);
	if (code) {
		kw_error_wrap(error, "without the keys that only a restart takes up");
		goto refused;
	}
	return switch_to(config, slots, changed, arg, error);
refused:
	kw_config_slots_free(config, slots);
	return code;
}

/* The values with this one among them, if a daemon could run with them. */
static int slots_with(const struct kw_config *config, size_t index, const char *value,
	const char *source, struct kw_config_slot **built, struct kw_error *error)
{
	struct kw_config_slot *slots;
	json_t *parsed;
	int code = kw_config_value_parse(&config->keys[index], value, &parsed, error);

	if (code)
		return code;
	slots = kw_config_slots_copy(config);
	put_named(&slots[index], parsed, source);
	code = check_slots(config, slots, error);
	if (code)
		kw_config_slots_free(config, slots);
	else
		*built = slots;
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
	struct kw_config_slot *slots;
	int code = check_live(config, path, error);

	if (!code)
		code = slots_with(
			config, kw_config_find(config, path), value, CHANGED, &slots, error);
	return code ? code : switch_to(config, slots, changed, arg, error);
}

int kw_config_change_and_save(struct kw_config *config, const char *path, const char *value,
	kw_config_changed_fn changed, void *arg, struct kw_error *error)
{
	size_t index = kw_config_find(config, path);
	struct kw_config_slot *slots;
	json_t *before;
	int code = check_live(config, path, error);

	if (code || (code = kw_config_may_save(config, path, error)) ||
		(code = slots_with(config, index, value,
			 kw_config_saved_file(config, config->slots), &slots, error)))
		return code;
	code = kw_config_write_saved(config, path, slots[index].value, error);
	if (code) {
		kw_config_slots_free(config, slots);
		return code;
	}
	before = json_incref(config->slots[index].value);
	code = switch_to(config, slots, changed, arg, error);
	if (code)
		kw_config_write_saved(config, path, before, NULL);
	json_decref(before);
	return code;
}

int kw_config_save(
	struct kw_config *config, const char *path, const char *value, struct kw_error *error)
{
	size_t index = kw_config_find(config, path);
	struct kw_config_slot *slots;
	int code = kw_config_may_save(config, path, error);

	if (code || (code = slots_with(config, index, value,
			     kw_config_saved_file(config, config->slots), &slots, error)))
		return code;
	code = kw_config_write_saved(config, path, slots[index].value, error);
	if (code)
		kw_config_slots_free(config, slots);
	else
		slots_replace(config, slots);
	return code;
}
