/* Which files an "include" names: a name or a list of them, with * ? [ as in a shell. */
#include "control/config/internal.h"

#include "base/buffer.h"
#include "control/json_text.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "*?["

static void add(struct kw_config_included *included, char *file)
{
	included->files =
		kw_realloc(included->files, (included->count + 1) * sizeof *included->files);
	included->files[included->count++] = file;
}

void kw_config_included_free(struct kw_config_included *included)
{
	for (size_t i = 0; i < included->count; i++)
		free(included->files[i]);
	free(included->files);
	*included = (struct kw_config_included){0};
}

/* In the folder of `file`, unless it begins with a slash. quoted: the folder is no pattern. */
static char *beside(const char *file, const char *name, bool quoted)
{
	const char *slash = strrchr(file, '/'), *end = slash ? slash + 1 : file;
	struct kw_buffer path = {0};

	if (*name == '/')
		return kw_strdup(name);
	for (const char *at = file; at < end; at++) {
		if (quoted && strchr(MAGIC "\\", *at))
			kw_buffer_append(&path, "\\", 1);
		kw_buffer_append(&path, at, 1);
	}
	kw_buffer_append(&path, name, strlen(name) + 1);
	return (char *)path.data;
}

/* A folder that is not there has no files: so can a package that brings them be gone. */
static int on_trouble(const char *path, int errnum)
{
	return errnum != ENOENT && errnum != ENOTDIR;
}

static int find_pattern(const char *file, const char *pattern, struct kw_config_included *included,
	struct kw_error *error)
{
	char *path = beside(file, pattern, true);
	glob_t found = {0};
	int result, code = KW_OK;

	/* Sorted by the bytes of their names, because no locale is set. */
	result = glob(path, 0, on_trouble, &found);
	if (result == GLOB_NOSPACE)
		kw_out_of_memory(strlen(path));
	if (result && result != GLOB_NOMATCH)
		code = kw_error_set(error, KW_E_CONFIG,
			"include: a folder of %s cannot be read: let the daemon's user read it "
			"(chmod, chown)",
			path);
	else if (included->count + found.gl_pathc > KW_CONFIG_FILES_MAX)
		code = kw_error_set(error, KW_E_CONFIG,
			"include: %s are %zu files, and %d are read at most: join some of them",
			path, found.gl_pathc, KW_CONFIG_FILES_MAX);
	for (size_t i = 0; !code && i < found.gl_pathc; i++)
		add(included, kw_strdup(found.gl_pathv[i]));
	globfree(&found);
	free(path);
	return code;
}

static int find_one(const char *file, const json_t *given, struct kw_config_included *included,
	struct kw_error *error)
{
	const char *name = json_string_value(given);
	char shown[KW_JSON_SHOWN];

	if (!name || !*name)
		return kw_error_set(error, KW_E_CONFIG,
			"include: expected the name of a file, or a list of names, like "
			"[\"proxy.d/*.json\"]; given %s",
			kw_json_show(given, shown));
	if (strpbrk(name, MAGIC))
		return find_pattern(file, name, included, error);
	if (included->count == KW_CONFIG_FILES_MAX)
		return kw_error_set(error, KW_E_CONFIG,
			"include: more than %d files: join some of them", KW_CONFIG_FILES_MAX);
	add(included, beside(file, name, false));
	return KW_OK;
}

int kw_config_included_find(const char *file, const json_t *given,
	struct kw_config_included *included, struct kw_error *error)
{
	int code = KW_OK;
	json_t *item;
	size_t index;

	*included = (struct kw_config_included){0};
	if (!json_is_array(given))
		code = find_one(file, given, included, error);
	json_array_foreach(given, index, item) if (!code) code =
		find_one(file, item, included, error);
	if (code)
		kw_config_included_free(included);
	return code;
}
