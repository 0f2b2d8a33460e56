/* What the files of the configuration share; not for others. */
#ifndef KW_CONTROL_CONFIG_INTERNAL_H
#define KW_CONTROL_CONFIG_INTERNAL_H

#include "control/config/config.h"

#include <jansson.h>

#define KW_CONFIG_FILE_MAX ((size_t)1 << 20)
#define KW_CONFIG_FILES_MAX 256   /* with all that are included */
#define KW_CONFIG_INCLUDE_DEPTH 8 /* of files that include each other */
#define KW_CONFIG_ASSIGNMENTS_MAX 256
#define KW_CONFIG_VARIABLES_MAX 1024
#define KW_CONFIG_LIST_MAX 1024
#define KW_CONFIG_PATH_MAX 128

/* A key's value. The text of a source is for people: a file, "the environment", "--set". */
struct kw_config_slot {
	json_t *value;  /* in the one shape its type has (value.c); NULL: required and not given */
	json_t *source; /* where it comes from; NULL: it is the fallback */
};

struct kw_config {
	const struct kw_config_key *keys;
	size_t count;
	kw_config_rule_fn rule; /* NULL: none */
	/*
	 * One for each key. Changes are made to a copy, which replaces this as a whole: a refused
	 * change leaves it untouched.
	 */
	struct kw_config_slot *slots;
	char *file;                   /* NULL: none was loaded */
	struct kw_buffer passed_over; /* see kw_config_passed_over */
	/* Not NULL: what is wrong with keys of a file goes there, and the file is read on. */
	struct kw_config_mistakes *mistakes;
	char *assignments[KW_CONFIG_ASSIGNMENTS_MAX];
	size_t assignment_count;
	char *variables[KW_CONFIG_VARIABLES_MAX]; /* of the environment, without KEYWAKE_ */
	size_t variable_count;
};

/* slots.c: all fallbacks; a copy of those in force. */
struct kw_config_slot *kw_config_slots_new(const struct kw_config *config);
struct kw_config_slot *kw_config_slots_copy(const struct kw_config *config);
void kw_config_slots_free(const struct kw_config *config, struct kw_config_slot *slots);

/* Another value for this key. value: taken; source: shared. */
void kw_config_put(struct kw_config_slot *slot, json_t *value, json_t *source);

/* Bring a JSON value into its key's shape: checked, *value is a new reference. */
int kw_config_value_check(
	const struct kw_config_key *key, json_t *given, json_t **value, struct kw_error *error);

/* The same from text that is JSON, or else a string (--set, config.set). */
int kw_config_value_parse(
	const struct kw_config_key *key, const char *text, json_t **value, struct kw_error *error);

/* "4GiB" and the like; false when it is not that or does not fit. */
bool kw_bytes_parse(const char *text, int64_t *bytes);

/* The key's place in the table; count when it is not known. */
size_t kw_config_find(const struct kw_config *config, const char *path);

/* Is path a group, like "redis"? */
bool kw_config_is_group(const struct kw_config *config, const char *path);

/* KW_E_CONFIG: the key is not known, with the nearest one. */
int kw_config_unknown(const struct kw_config *config, const char *path, struct kw_error *error);

/* Does this group say what is followed, who may read it, or what is deleted? */
bool kw_config_is_weighty(const char *group, size_t length);

/* A name for kw_config_passed_over. */
void kw_config_put_passed_over(struct kw_config *config, const char *name);

/* environment.c: keep the variables that can be keys, as a copy. */
int kw_config_environment_keep(
	struct kw_config *config, const char *const *environment, struct kw_error *error);

/* Read those that were kept into slots (an array as in struct kw_config). */
int kw_config_environment_read(
	struct kw_config *config, struct kw_config_slot *slots, struct kw_error *error);

bool kw_config_in_environment(const struct kw_config *config, const char *path);

/* Append the name of the key's variable. */
void kw_config_put_variable(struct kw_buffer *out, const char *path);

enum kw_config_origin {
	KW_CONFIG_WRITTEN, /* by a person: it may include others */
	KW_CONFIG_KEPT,    /* by this daemon: what was saved */
};

/* Read the file into slots (an array as in struct kw_config). Names what is passed over. */
int kw_config_file_read(struct kw_config *config, const char *file, enum kw_config_origin origin,
	struct kw_config_slot *slots, struct kw_error *error);

/* The files of one "include", in the order in which they count. */
struct kw_config_included {
	char **files;
	size_t count;
};

/*
 * include.c: find them. given: the value of "include"; file: the one that has it, from whose folder
 * relative names start. A pattern that no file matches is none; a name without * ? [ is a file that
 * must be there, which reading it says. KW_E_CONFIG: *included is empty.
 */
int kw_config_included_find(const char *file, const json_t *given,
	struct kw_config_included *included, struct kw_error *error);
void kw_config_included_free(struct kw_config_included *included);

/* saved.c: the file that these values name (NULL: none is set); is it there? */
const char *kw_config_saved_file(
	const struct kw_config *config, const struct kw_config_slot *slots);
bool kw_config_has_saved(const char *file);

/* Could this key be saved? KW_E_STATE says why not. */
int kw_config_may_save(const struct kw_config *config, const char *path, struct kw_error *error);

/* Put the value of a key into that file, with those that are there. Only if it may be saved. */
int kw_config_write_saved(
	const struct kw_config *config, const char *path, json_t *value, struct kw_error *error);

/* manual.c: append text to out, with the characters that scdoc takes for markup escaped. */
void kw_config_put_scdoc(struct kw_buffer *out, const char *text);

const char *kw_config_type_name(enum kw_config_type type);

#endif
