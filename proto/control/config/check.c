#include "control/config/check.h"

#include "base/printable.h"
#include "base/secret.h"
#include "control/config/keys.h"

#include <stdio.h>
#include <string.h>

void kw_config_say(const char *program, const char *before, const char *sentence)
{
	char shown[KW_ERROR_TEXT * KW_PRINTABLE_ESCAPE];

	kw_printable(shown, sizeof shown, kw_slice_text(sentence), KW_NEWLINE_ESCAPED);
	fprintf(stderr, "%s: %s%s\n", program, before, shown);
}

/* A file of auth.* has a form of its own: keys.h. */
static bool is_secret(const char *path)
{
	static const char *const ends[] = {"password_file", "secret_file", "masterauth_file"};

	if (strncmp(path, "auth.", strlen("auth.")) == 0)
		return false;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (strlen(path) > strlen(ends[i]) &&
			strcmp(path + strlen(path) - strlen(ends[i]), ends[i]) == 0)
			return true;
	return false;
}

/* Open each file of a secret as the start does. */
static void look_at_secrets(const struct kw_config *config, const struct kw_config_key *keys,
	struct kw_config_mistakes *files)
{
	for (const struct kw_config_key *key = keys; key->path; key++) {
		struct kw_buffer secret = {0};
		struct kw_error error;

		if (is_secret(key->path) &&
			kw_secret_load(kw_config_text(config, key->path), &secret, &error)) {
			kw_error_wrap(&error, "%s", key->path);
			kw_config_mistake(files, &error);
		}
		kw_secret_close_buffer(&secret);
	}
}

static void say_all(
	const char *program, const char *before, const struct kw_config_mistakes *mistakes)
{
	size_t told =
		mistakes->count < KW_CONFIG_MISTAKES_MAX ? mistakes->count : KW_CONFIG_MISTAKES_MAX;

	for (size_t i = 0; i < told; i++)
		kw_config_say(program, before, mistakes->list[i].text);
	if (told < mistakes->count)
		fprintf(stderr, "%s: and %zu more: correct these first\n", program,
			mistakes->count - told);
}

static void say_outcome(const char *name, size_t wrong, size_t files)
{
	const struct {
		size_t count;
		const char *one, *many;
	} parts[] = {{wrong, "mistake", "mistakes"},
		{files, "file that cannot be used", "files that cannot be used"}};

	if (wrong == 0 && files == 0) {
		printf("%s: the configuration is complete and valid\n", name);
		return;
	}
	printf("%s: ", name);
	for (size_t i = 0; i < 2; i++)
		if (parts[i].count > 0)
			printf("%s%zu %s", i > 0 && wrong > 0 ? ", " : "", parts[i].count,
				parts[i].count == 1 ? parts[i].one : parts[i].many);
	printf("; the daemon would not start\n");
}

bool kw_config_check(const struct kw_config *config, const struct kw_config_program *program,
	const struct kw_config_mistakes *mistakes, const char *name)
{
	struct kw_config_looked looked = {.files = {.count = 0}};

	if (config && *kw_config_passed_over(config))
		kw_config_say(program->name,
			"this version does not know these keys, and passes them over: ",
			kw_config_passed_over(config));
	if (config) {
		look_at_secrets(config, program->keys, &looked.files);
		kw_keys_look(config, &looked.files);
		if (program->look)
			program->look(config, &looked);
	}
	say_all(program->name, "", mistakes);
	say_all(program->name, "", &looked.files);
	say_all(program->name, "at this moment: ", &looked.moment);
	say_outcome(name, mistakes->count, looked.files.count);
	return mistakes->count == 0 && looked.files.count == 0;
}
