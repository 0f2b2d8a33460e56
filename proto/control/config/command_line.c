/* The command line that all daemons share. */
#include "control/config/internal.h"

#include "base/printable.h"
#include "base/secret.h"
#include "control/config/keys.h"
#include "control/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The exit status for a command line or configuration that cannot work: a service manager need not
 * try again (RestartPreventExitStatus=2).
 */
#define EXIT_USAGE 2

enum option { CONFIG, SET, CHECK, DOCTOR, HELP, HELP_CONFIG, VERSION };

static const struct option_word {
	const char *name;
	enum option option;
	const char *value; /* NULL: takes none; in brackets: may be left out */
	const char *doc;
} words[] = {
	{"--config", CONFIG, "FILE", "read the configuration (JSON) from FILE"},
	{"--set", SET, "KEY=VALUE", "set one key after the file was read; VALUE is JSON or text"},
	{"--check-config", CHECK, NULL, "check the configuration, say what is wrong, and exit"},
	{"--doctor", DOCTOR, NULL,
		"look at all that the configuration names, list what is wrong as JSON, and exit; "
		"keywakectl doctor shows it"},
	{"--help-config", HELP_CONFIG, "[=scdoc]", "list every configuration key, and exit"},
	{"--help", HELP, "[=scdoc]", "show this help, and exit"},
	{"--version", VERSION, NULL, "show the version, and exit"},
};
#define WORDS (sizeof words / sizeof *words)

struct command_line {
	const char *program, *file;
	bool check, doctor;
};

static void say(const char *program, const char *before, const char *sentence)
{
	char shown[KW_ERROR_TEXT * KW_PRINTABLE_ESCAPE];

	kw_printable(shown, sizeof shown, kw_slice_text(sentence), KW_NEWLINE_ESCAPED);
	fprintf(stderr, "%s: %s%s\n", program, before, shown);
}

static int complain(const char *program, const char *sentence)
{
	say(program, "", sentence);
	return EXIT_USAGE;
}

/* For the manual page, as manual.c does it for the keys. */
static int show_help_scdoc(void)
{
	struct kw_buffer text = {0};

	kw_buffer_printf(&text, "# OPTIONS\n\n");
	for (size_t i = 0; i < WORDS; i++) {
		kw_buffer_printf(&text, "*");
		kw_config_put_scdoc(&text, words[i].name);
		kw_buffer_printf(&text, "*");
		if (words[i].value && words[i].value[0] != '[') {
			kw_buffer_printf(&text, " _");
			kw_config_put_scdoc(&text, words[i].value);
			kw_buffer_printf(&text, "_");
		} else if (words[i].value) {
			kw_config_put_scdoc(&text, words[i].value);
		}
		kw_buffer_printf(&text, "\n\t");
		kw_config_put_scdoc(&text, words[i].doc);
		kw_buffer_printf(&text, "\n\n");
	}
	fwrite(kw_buffer_bytes(&text), 1, kw_buffer_length(&text), stdout);
	kw_buffer_close(&text);
	return 0;
}

static int show_help(const char *program, const char *form)
{
	if (form && strcmp(form, "scdoc") != 0)
		return complain(program, "--help=scdoc is the only other form");
	if (form)
		return show_help_scdoc();
	printf("Usage: %s [--config FILE] [--set KEY=VALUE]...\n\nOptions:\n", program);
	for (size_t i = 0; i < WORDS; i++) {
		char left[40];
		bool joined = words[i].value && words[i].value[0] == '[';

		snprintf(left, sizeof left, "%s%s%s", words[i].name,
			words[i].value && !joined ? " " : "", words[i].value ? words[i].value : "");
		printf("  %-24s %s\n", left, words[i].doc);
	}
	printf("\nThe exit status is %d when command line or configuration cannot work.\n",
		EXIT_USAGE);
	return 0;
}

static int show_keys(const char *program, const struct kw_config_key *keys, const char *form)
{
	bool scdoc = form && strcmp(form, "scdoc") == 0;
	struct kw_buffer text = {0};

	if (form && !scdoc)
		return complain(program, "--help-config=scdoc is the only other form");
	kw_config_manual(keys, scdoc, &text);
	fwrite(kw_buffer_bytes(&text), 1, kw_buffer_length(&text), stdout);
	kw_buffer_close(&text);
	return 0;
}

static int unknown_option(const char *program, const char *word)
{
	struct kw_nearest nearest;
	char sentence[256];
	const char *best;

	kw_nearest_init(&nearest, word);
	for (size_t i = 0; i < WORDS; i++)
		kw_nearest_try(&nearest, words[i].name);
	best = kw_nearest_word(&nearest);
	snprintf(sentence, sizeof sentence, "unknown argument %.80s%s%s%s (--help shows all)", word,
		best ? ": did you mean " : "", best ? best : "", best ? "?" : "");
	return complain(program, sentence);
}

/* "--name", "--name=value": the option, and where its value begins (NULL: not joined on). */
static const struct option_word *find_word(const char *given, const char **value)
{
	const char *equals = strchr(given, '=');
	size_t length = equals ? (size_t)(equals - given) : strlen(given);

	*value = equals ? equals + 1 : NULL;
	if (strcmp(given, "-h") == 0)
		given = "--help", length = 6;
	for (size_t i = 0; i < WORDS; i++)
		if (strlen(words[i].name) == length && memcmp(words[i].name, given, length) == 0)
			return &words[i];
	return NULL;
}

/*
 * Walk the arguments. With apply false, take only the file, --check-config and the options that end
 * the program. With apply true, take the assignments: they come after the file, wherever it was
 * named.
 */
static int walk(struct command_line *line, struct kw_config *config,
	const struct kw_config_key *keys, int argc, char **argv, bool apply)
{
	for (int i = 1; i < argc; i++) {
		const char *value;
		const struct option_word *word = find_word(argv[i], &value);
		struct kw_error error;
		char sentence[128];

		if (!word)
			return unknown_option(line->program, argv[i]);
		if (word->value && word->value[0] != '[' && !value) {
			snprintf(sentence, sizeof sentence, "%s needs a value: %s %s", word->name,
				word->name, word->value);
			if (++i == argc)
				return complain(line->program, sentence);
			value = argv[i];
		} else if (!word->value && value) {
			snprintf(sentence, sizeof sentence, "%s takes no value", word->name);
			return complain(line->program, sentence);
		}
		if (apply && word->option == SET && kw_config_set(config, value, &error))
			return complain(line->program, error.text);
		if (apply)
			continue;
		if (word->option == HELP)
			return show_help(line->program, value);
		if (word->option == HELP_CONFIG)
			return show_keys(line->program, keys, value);
		if (word->option == VERSION)
			return printf("%s %s\n", line->program, KW_VERSION) < 0;
		if (word->option == CHECK)
			line->check = true;
		if (word->option == DOCTOR)
			line->doctor = true;
		if (word->option == CONFIG && line->file)
			return complain(line->program, "--config is given twice");
		if (word->option == CONFIG)
			line->file = value;
	}
	return -1;
}

static bool is_secret(const char *path)
{
	static const char *const ends[] = {"password_file", "secret_file", "masterauth_file"};

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (strlen(path) > strlen(ends[i]) &&
			strcmp(path + strlen(path) - strlen(ends[i]), ends[i]) == 0)
			return true;
	return false;
}

/* Open each file of a secret as the start does. The sentences name the remedy. True: all are good.
 */
static bool look_at_secrets(
	const struct kw_config *config, const char *program, const struct kw_config_key *keys)
{
	bool good = true;

	for (const struct kw_config_key *key = keys; key->path; key++) {
		struct kw_buffer secret = {0};
		struct kw_error error;

		if (is_secret(key->path) &&
			kw_secret_load(kw_config_text(config, key->path), &secret, &error)) {
			kw_error_wrap(&error, "%s", key->path);
			say(program, "at this moment: ", error.text);
			good = false;
		}
		kw_secret_close_buffer(&secret);
	}
	return good;
}

/* The keys of auth.*, whose files have a form of their own. */
static void look_at_keys(
	const struct kw_config *config, const char *program, const struct kw_config_key *keys)
{
	struct kw_keyring *ring = NULL;
	struct kw_own_key own = {0};
	bool failed = false;
	struct kw_error error;

	for (const struct kw_config_key *key = keys; key->path && !failed; key++) {
		if (strcmp(key->path, "auth.keys_file") == 0 && *kw_config_text(config, key->path))
			failed = !(ring = kw_keys_load(config, &error));
		if (strcmp(key->path, "auth.key_id") == 0 && *kw_config_text(config, key->path))
			failed = kw_own_key_load(config, &own, &error) != KW_OK;
	}
	if (failed)
		say(program, "at this moment: ", error.text);
	kw_keyring_release(ring);
	kw_own_key_close(&own);
}

static int check(const struct command_line *line, const struct kw_config *config,
	const struct kw_config_program *program)
{
	struct kw_error error;

	if (*kw_config_passed_over(config))
		say(line->program, "this version does not know these keys, and passes them over: ",
			kw_config_passed_over(config));
	printf("%s: the configuration is complete and valid\n",
		line->file ? line->file : line->program);
	if (program->look && program->look(config, &error))
		say(line->program, "at this moment: ", error.text);
	if (look_at_secrets(config, line->program, program->keys))
		look_at_keys(config, line->program, program->keys);
	return 0;
}

/* What is wrong with keys of the file, or with all of them together, hides nothing else. */
static int examine(struct command_line *line, struct kw_config *config,
	const struct kw_config_program *program, int argc, char **argv)
{
	struct kw_config_mistakes mistakes = {.count = 0};
	struct kw_error error;
	int status;

	config->mistakes = &mistakes;
	if (line->file && kw_config_load(config, line->file, &error)) {
		kw_config_mistake(&mistakes, &error);
		return program->doctor(NULL, &mistakes);
	}
	if (kw_config_load_environment(config, (const char *const *)environ, &error))
		kw_config_mistake(&mistakes, &error);
	status = walk(line, config, program->keys, argc, argv, true);
	if (status >= 0)
		return status;
	if (kw_config_load_saved(config, &error) || kw_config_complete(config, &error))
		kw_config_mistake(&mistakes, &error);
	config->mistakes = NULL;
	return program->doctor(config, &mistakes);
}

int kw_config_command_line(
	struct kw_config *config, const struct kw_config_program *program, int argc, char **argv)
{
	struct command_line line = {.program = program->name};
	struct kw_error error;
	int status = walk(&line, config, program->keys, argc, argv, false);

	if (status >= 0)
		return status;
	if (line.doctor && program->doctor)
		return examine(&line, config, program, argc, argv);
	if (line.file && kw_config_load(config, line.file, &error))
		return complain(line.program, error.text);
	if (kw_config_load_environment(config, (const char *const *)environ, &error))
		return complain(line.program, error.text);
	status = walk(&line, config, program->keys, argc, argv, true);
	if (status >= 0)
		return status;
	if (kw_config_load_saved(config, &error) || kw_config_complete(config, &error))
		return complain(line.program, error.text);
	return line.check ? check(&line, config, program) : -1;
}
