/* The command line that all daemons share. */
#include "control/config/internal.h"

#include "control/config/check.h"
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
	{"--config", CONFIG, "FILE", "read the configuration (JSON, with comments) from FILE"},
	{"--set", SET, "KEY=VALUE", "set one key after the file was read; VALUE is JSON or text"},
	{"--check-config", CHECK, NULL,
		"check the configuration and the files that it names, say all that is wrong, and "
		"exit"},
	{"--doctor", DOCTOR, NULL,
		"look at all that the configuration names, list what is wrong as JSON, and exit; "
		"keywakectl doctor shows it"},
	{"--help-config", HELP_CONFIG, "[=scdoc|markdown]",
		"list every configuration key, and exit"},
	{"--help", HELP, "[=scdoc]", "show this help, and exit"},
	{"--version", VERSION, NULL, "show the version, and exit"},
};
#define WORDS (sizeof words / sizeof *words)

struct command_line {
	const char *program, *file;
	bool check, doctor;
};

static int complain(const char *program, const char *sentence)
{
	kw_config_say(program, "", sentence);
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

static int show_keys(const char *program, const struct kw_config_key *keys, const char *given)
{
	static const char *const forms[] = {
		[KW_CONFIG_FORM_TEXT] = "",
		[KW_CONFIG_FORM_SCDOC] = "scdoc",
		[KW_CONFIG_FORM_MARKDOWN] = "markdown",
	};
	const size_t count = sizeof forms / sizeof *forms;
	struct kw_buffer text = {0};
	size_t form = 0;

	while (given && form < count && strcmp(forms[form], given) != 0)
		form++;
	if (form == count)
		return complain(program,
			"--help-config=scdoc and --help-config=markdown are the only other forms");
	kw_config_manual(keys, program, (enum kw_config_form)form, &text);
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
		if (apply && word->option == SET && kw_config_set(config, value, &error)) {
			if (!config->mistakes)
				return complain(line->program, error.text);
			kw_config_mistake(config->mistakes, &error);
		}
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

static int conclude(const struct command_line *line, const struct kw_config *config,
	const struct kw_config_program *program, const struct kw_config_mistakes *mistakes)
{
	if (line->doctor)
		return program->doctor(config, mistakes);
	return kw_config_check(config, program, mistakes, line->file ? line->file : line->program)
		       ? 0
		       : EXIT_USAGE;
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
		config->mistakes = NULL;
		kw_config_mistake(&mistakes, &error);
		return conclude(line, NULL, program, &mistakes);
	}
	if (kw_config_load_environment(config, (const char *const *)environ, &error))
		kw_config_mistake(&mistakes, &error);
	status = walk(line, config, program->keys, argc, argv, true);
	if (status < 0 &&
		(kw_config_load_saved(config, &error) || kw_config_complete(config, &error)))
		kw_config_mistake(&mistakes, &error);
	config->mistakes = NULL;
	return status < 0 ? conclude(line, config, program, &mistakes) : status;
}

int kw_config_command_line(
	struct kw_config *config, const struct kw_config_program *program, int argc, char **argv)
{
	struct command_line line = {.program = program->name};
	struct kw_error error;
	int status = walk(&line, config, program->keys, argc, argv, false);

	if (status >= 0)
		return status;
	line.doctor &= program->doctor != NULL;
	if (line.doctor || line.check)
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
	return -1;
}
