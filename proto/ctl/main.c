/* Arguments: options anywhere, the command's words, its arguments. */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "control/nearest.h"

#include <locale.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX (2 + CTL_ARGS_MAX) /* a command of two words and its arguments */

struct parsed {
	const char *words[WORDS_MAX + 1];
	int word_count;
	const char *option_names[CTL_OPTIONS_MAX + 1];
	const char *option_values[CTL_OPTIONS_MAX + 1];
	int option_count;
	bool help;
};

/* Every option of any command. */
static const struct ctl_option *find_option(const char *name, size_t length)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		for (int i = 0; i < CTL_OPTIONS_MAX && c->options[i].name; i++)
			if (strlen(c->options[i].name) == length &&
				memcmp(c->options[i].name, name, length) == 0)
				return &c->options[i];
	return NULL;
}

static enum ctl_exit unknown_option(const char *word)
{
	struct kw_nearest nearest;
	const char *best;

	kw_nearest_init(&nearest, word);
	for (const struct ctl_option *o = ctl_global_options; o->name; o++)
		if (strlen(o->name) > 2)
			kw_nearest_try(&nearest, o->name);
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		for (int i = 0; i < CTL_OPTIONS_MAX && c->options[i].name; i++)
			kw_nearest_try(&nearest, c->options[i].name);
	best = kw_nearest_word(&nearest);
	return ctl_usage("unknown option %.60s%s%s%s (--help shows all)", word,
		best ? ": did you mean " : "", best ? best : "", best ? "?" : "");
}

/*
 * "--name VALUE" or "--name=VALUE" of some command, or "--name" if it takes no value; *index moves
 * over what was taken.
 */
static enum ctl_exit take_option(struct parsed *parsed, int argc, char **argv, int *index)
{
	const char *word = argv[*index], *equals = strchr(word, '=');
	size_t length = equals ? (size_t)(equals - word) : strlen(word);
	const struct ctl_option *option = find_option(word, length);

	if (!option)
		return unknown_option(word);
	if (parsed->option_count > CTL_OPTIONS_MAX)
		return ctl_usage("too many options");
	parsed->option_names[parsed->option_count] = option->name;
	if (!option->value && equals)
		return ctl_usage("%s takes no value", option->name);
	if (!option->value)
		parsed->option_values[parsed->option_count] = "";
	else if (equals)
		parsed->option_values[parsed->option_count] = equals + 1;
	else if (*index + 1 < argc)
		parsed->option_values[parsed->option_count] = argv[++*index];
	else
		return ctl_usage(
			"%s needs a value: %s %s", option->name, option->name, option->value);
	parsed->option_count++;
	return CTL_DONE;
}

#define FORMATS "table, json or prometheus"

static enum ctl_exit take_format(struct ctl *ctl, const char *word)
{
	static const char *const words[] = {
		[CTL_TABLE] = "table", [CTL_JSON] = "json", [CTL_PROMETHEUS] = "prometheus"};
	struct kw_nearest nearest;

	kw_nearest_init(&nearest, word);
	for (int i = CTL_TABLE; i <= CTL_PROMETHEUS; i++) {
		kw_nearest_try(&nearest, words[i]);
		if (strcmp(word, words[i]) == 0) {
			ctl->format = (enum ctl_format)i;
			return CTL_DONE;
		}
	}
	if (kw_nearest_word(&nearest))
		return ctl_usage("-o %.40s: did you mean %s? There are " FORMATS, word,
			kw_nearest_word(&nearest));
	return ctl_usage("-o %.40s: expected " FORMATS, word);
}

/* CTL_DONE to go on, or the exit status for a line that cannot be understood. */
static enum ctl_exit parse(struct ctl *ctl, struct parsed *parsed, int argc, char **argv)
{
	bool words_only = false;

	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		enum ctl_exit status = CTL_DONE;

		if (words_only || word[0] != '-' || word[1] == '\0') {
			if (parsed->word_count == WORDS_MAX)
				return ctl_usage("too many arguments, from %.60s on", word);
			parsed->words[parsed->word_count++] = word;
		} else if (strcmp(word, "--") == 0) {
			words_only = true;
		} else if (strcmp(word, "--json") == 0) {
			ctl->format = CTL_JSON;
		} else if (strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0) {
			if (++i == argc)
				return ctl_usage("-o needs a format: " FORMATS);
			status = take_format(ctl, argv[i]);
		} else if (strncmp(word, "--output=", 9) == 0) {
			status = take_format(ctl, word + 9);
		} else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
			parsed->help = true;
		} else if (strcmp(word, "-s") == 0 || strcmp(word, "--socket") == 0) {
			if (++i == argc)
				return ctl_usage("-s needs the path of a socket");
			ctl->socket = argv[i];
		} else if (strncmp(word, "--socket=", 9) == 0) {
			ctl->socket = word + 9;
		} else {
			status = take_option(parsed, argc, argv, &i);
		}
		if (status)
			return status;
	}
	return CTL_DONE;
}

/* The command that the first words name, and how many of them it takes. */
static const struct ctl_command *find_command(const struct parsed *parsed, int *taken)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		const char *space = strchr(c->name, ' ');
		size_t first = space ? (size_t)(space - c->name) : strlen(c->name);

		if (parsed->word_count == 0 || strlen(parsed->words[0]) != first ||
			memcmp(parsed->words[0], c->name, first) != 0)
			continue;
		*taken = space ? 2 : 1;
		if (!space || (parsed->word_count > 1 && strcmp(parsed->words[1], space + 1) == 0))
			return c;
	}
	return NULL;
}

/* The answer to "wait wram" suggests "wait warm"; the answer to "wait" alone lists its commands. */
static const char *nearest_command(const struct parsed *parsed, const char *words)
{
	struct kw_nearest nearest;

	kw_nearest_init(&nearest, words);
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		kw_nearest_try(&nearest, c->name);
	if (kw_nearest_word(&nearest))
		return kw_nearest_word(&nearest);
	kw_nearest_init(&nearest, parsed->words[0]);
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		kw_nearest_try(&nearest, c->name);
	return kw_nearest_word(&nearest);
}

static const struct ctl_command *first_of_group(const char *word)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		if (strncmp(c->name, word, strlen(word)) == 0 && c->name[strlen(word)] == ' ')
			return c;
	return NULL;
}

static enum ctl_exit unknown_command(const struct parsed *parsed)
{
	const struct ctl_command *group;
	const char *best;
	char words[120];

	if (parsed->word_count == 0)
		return ctl_usage("which command? (--help shows all)");
	snprintf(words, sizeof words, "%.50s%s%.50s", parsed->words[0],
		parsed->word_count > 1 ? " " : "", parsed->word_count > 1 ? parsed->words[1] : "");
	best = nearest_command(parsed, words);
	group = first_of_group(parsed->words[0]);
	if (group && (!best || parsed->word_count == 1))
		return ctl_usage("%s: a second word is needed, like %s (keywakectl %s --help)",
			words, group->name, parsed->words[0]);
	return ctl_usage("unknown command %s%s%s%s (--help shows all)", words,
		best ? ": did you mean " : "", best ? best : "", best ? "?" : "");
}

/* Give the command its options and arguments, and refuse the others. */
static enum ctl_exit bind_arguments(struct ctl *ctl, const struct parsed *parsed, int taken)
{
	const struct ctl_command *command = ctl->command;

	for (int i = taken; i < parsed->word_count; i++) {
		if (ctl->arg_count == command->most)
			return ctl_usage(
				"%s: unexpected argument %.60s", command->name, parsed->words[i]);
		ctl->args[ctl->arg_count++] = parsed->words[i];
	}
	if (ctl->arg_count < command->least)
		return ctl_usage("%s needs %s: keywakectl %s %s", command->name, command->args,
			command->name, command->args);
	for (int given = 0; given < parsed->option_count; given++) {
		int own = 0;

		while (own < CTL_OPTIONS_MAX &&
			(!command->options[own].name ||
				strcmp(command->options[own].name, parsed->option_names[given])))
			own++;
		if (own == CTL_OPTIONS_MAX)
			return ctl_usage(
				"%s has no option %s", command->name, parsed->option_names[given]);
		if (ctl->options[own])
			return ctl_usage("%s is given twice", parsed->option_names[given]);
		ctl->options[own] = parsed->option_values[given];
	}
	return CTL_DONE;
}

/* --help of a command, of a group of commands ("config"), or of all. */
static enum ctl_exit show_help(const struct ctl_command *command, const struct parsed *parsed)
{
	bool shown = false;

	if (command) {
		ctl_help_command(command, stdout);
		return CTL_DONE;
	}
	if (parsed->word_count == 0) {
		ctl_help(stdout);
		return CTL_DONE;
	}
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		size_t first = strcspn(c->name, " ");

		if (strlen(parsed->words[0]) != first ||
			memcmp(parsed->words[0], c->name, first) != 0)
			continue;
		if (shown)
			printf("\n");
		ctl_help_command(c, stdout);
		shown = true;
	}
	return shown ? CTL_DONE : unknown_command(parsed);
}

#define COMPLETION "--completion"

/* "--completion" is that of bash. A "-" after it: keys come from standard input. */
static bool show_completion(int argc, char **argv)
{
	size_t length = strlen(COMPLETION);
	const char *shell = argv[1] + length;

	if (strncmp(argv[1], COMPLETION, length) != 0 || (*shell && *shell != '='))
		return false;
	if (argc == 3 && strcmp(argv[2], "-") == 0)
		ctl_completion_keys(stdin);
	else if (argc != 2)
		return false;
	return ctl_completion(*shell ? shell + 1 : "bash");
}

/* What needs no daemon; false: go on. */
static bool run_alone(int argc, char **argv)
{
	if (argc > 1 && show_completion(argc, argv))
		return true;
	if (argc != 2)
		return false;
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		printf("keywakectl %s\n", KW_VERSION);
	else if (strcmp(argv[1], "--scdoc") == 0)
		ctl_help_scdoc();
	else
		return false;
	return true;
}

static enum ctl_exit run(struct ctl *ctl, int argc, char **argv)
{
	struct parsed parsed = {0};
	enum ctl_exit status = parse(ctl, &parsed, argc, argv);
	char names[CTL_CELL];
	int taken = 0;

	if (status)
		return status;
	ctl->command = find_command(&parsed, &taken);
	if (parsed.help)
		return show_help(ctl->command, &parsed);
	if (!ctl->command)
		return unknown_command(&parsed);
	status = bind_arguments(ctl, &parsed, taken);
	if (status)
		return status;
	if (ctl->format == CTL_PROMETHEUS && !ctl->command->figures)
		return ctl_usage("%s has no figures: -o prometheus goes with %s",
			ctl->command->name, ctl_with_figures(names));
	ctl->json =
		ctl->format == CTL_JSON || (ctl->format == CTL_BY_OUTPUT && !isatty(STDOUT_FILENO));
	ctl->colour = !ctl->json && ctl_colour_wanted(stdout);
	status = (ctl->format == CTL_PROMETHEUS ? ctl_run_metrics : ctl->command->run)(ctl);
	kw_rpc_client_close(ctl->client);
	return status;
}

int main(int argc, char **argv)
{
	struct ctl ctl = {.started_us = kw_wall_us()};
	enum ctl_exit status = CTL_DONE;

	/* For the character set of the bar; numbers stay as they are in C. */
	setlocale(LC_CTYPE, "");
	if (!run_alone(argc, argv))
		status = run(&ctl, argc, argv);
	if (fflush(stdout) || ferror(stdout)) {
		perror("keywakectl: standard output");
		return status ? (int)status : CTL_FAILED;
	}
	return (int)status;
}
