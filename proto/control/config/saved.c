/* Values that the operator keeps over a restart: a small JSON file beside the configuration. */
#include "control/config/internal.h"
#include "control/config/small_file.h"

#include "control/json_comments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAVED_FILE "control.saved_file"

const char *kw_config_saved_file(const struct kw_config *config, const struct kw_config_slot *slots)
{
	size_t index = kw_config_find(config, SAVED_FILE);
	const char *file = index < config->count ? json_string_value(slots[index].value) : NULL;

	return file && *file ? file : NULL;
}

bool kw_config_has_saved(const char *file)
{
	/* One that is there and cannot be reached must not count as none: reading it says why. */
	return file && (access(file, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR));
}

/*
 * The object in the file; an empty one if there is no file. A person might have put comments into
 * it: it is read all the same, because a daemon must not fail to start for a comment.
 */
static int read_saved(const char *file, json_t **saved, bool *commented, struct kw_error *error)
{
	struct kw_buffer text = {0};
	struct kw_json_place open;
	size_t length;
	int code;

	*saved = NULL;
	*commented = false;
	if (!kw_config_has_saved(file)) {
		*saved = json_object();
		return KW_OK;
	}
	code = kw_small_file_read(
		file, KW_CONFIG_FILE_MAX, KW_FILE_OWN, "the file of saved values", &text, error);
	length = kw_buffer_length(&text);
	if (!code && length > 0) {
		char *bytes = (char *)text.data + text.start;

		*commented = kw_json_blank_comments(bytes, &length, &open) != KW_JSON_COMMENTS_NONE;
		*saved = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, NULL);
	}
	kw_buffer_close(&text);
	if (!code && !json_is_object(*saved)) {
		json_decref(*saved);
		*saved = NULL;
		code = kw_error_set(error, KW_E_CONFIG,
			"%s has no JSON object: correct it, or delete it", file);
	}
	return code;
}

static int replace_file(const char *file, const char *text, struct kw_error *error)
{
	int failed = kw_small_file_replace(file, text, strlen(text), KW_FILE_SYNCED);

	if (failed)
		return kw_error_errno(error, failed,
			"nothing was saved: %s cannot be written (see " SAVED_FILE ")", file);
	return KW_OK;
}

static bool is_assigned(const struct kw_config *config, const char *path)
{
	size_t length = strlen(path);

	for (size_t i = 0; i < config->assignment_count; i++)
		if (strncmp(config->assignments[i], path, length) == 0 &&
			config->assignments[i][length] == '=')
			return true;
	return false;
}

int kw_config_may_save(const struct kw_config *config, const char *path, struct kw_error *error)
{
	if (kw_config_find(config, path) == config->count)
		return kw_config_unknown(config, path, error);
	if (!kw_config_saved_file(config, config->slots))
		return kw_error_set(error, KW_E_STATE,
			"nothing was saved: set " SAVED_FILE " to a file that this daemon may "
			"write");
	if (strncmp(path, "control.", strlen("control.")) == 0 || is_assigned(config, path))
		return kw_error_set(error, KW_E_STATE,
			"nothing was saved: %s is set on the command line or says where this "
			"daemon is: change it there",
			path);
	return KW_OK;
}

int kw_config_write_saved(
	const struct kw_config *config, const char *path, json_t *value, struct kw_error *error)
{
	const char *file = kw_config_saved_file(config, config->slots);
	char *text = NULL;
	bool commented;
	json_t *saved;
	int code = read_saved(file, &saved, &commented, error);

	if (code)
		return code;
	if (commented) {
		json_decref(saved);
		return kw_error_set(error, KW_E_STATE,
			"nothing was saved: %s has comments, or commas after last items, and would "
			"be written without them: move the comments to the configuration file, or "
			"delete them",
			file);
	}
	json_object_set(saved, path, value);
	text = json_dumps(saved, JSON_INDENT(2) | JSON_SORT_KEYS);
	code = replace_file(file, text, error);
	free(text);
	json_decref(saved);
	return code;
}

int kw_config_saved_json(
	const struct kw_config *config, struct kw_buffer *out, struct kw_error *error)
{
	const char *file = kw_config_saved_file(config, config->slots);
	bool commented;
	json_t *saved;
	char *text;

	if (read_saved(file, &saved, &commented, error))
		return error ? error->code : KW_E_CONFIG;
	text = json_dumps(saved, JSON_SORT_KEYS);
	kw_buffer_append(out, text, strlen(text));
	free(text);
	json_decref(saved);
	return KW_OK;
}
