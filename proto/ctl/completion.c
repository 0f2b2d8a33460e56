/*
 * Completion for bash, zsh and fish, from the table of commands. The configuration keys come from
 * the daemons' own tables: the build hands in what --help-config of each of them prints.
 */
#include "ctl/ctl.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 512
#define KEY_BYTES 96
#define FORMATS "table json prometheus"
#define LEVELS "error warn info debug trace"
#define SORTS "name kind state lag fresh records bytes keys code"
#define SOCKETS "/run/keywake/*.sock"

static char keys[KEYS_MAX][KEY_BYTES];
static size_t key_count;

static void add_key(const char *line, size_t length)
{
	for (size_t i = 0; i < key_count; i++)
		if (strlen(keys[i]) == length && memcmp(keys[i], line, length) == 0)
			return;
	if (key_count < KEYS_MAX && length < KEY_BYTES)
		memcpy(keys[key_count++], line, length);
}

void ctl_completion_keys(FILE *stream)
{
	char *line = NULL;
	size_t room = 0;

	/* "redis.address (text; required)"; what is said about a key is indented. */
	while (getline(&line, &room, stream) > 0) {
		size_t length = strspn(line, "abcdefghijklmnopqrstuvwxyz_.0123456789");

		if (length > 0 && strncmp(line + length, " (", 2) == 0)
			add_key(line, length);
	}
	free(line);
}

static void put_keys(void)
{
	for (size_t i = 0; i < key_count; i++)
		printf(" %s", keys[i]);
}

static bool is_first(const struct ctl_command *command, const char *word)
{
	size_t length = strcspn(command->name, " ");

	return strlen(word) == length && memcmp(command->name, word, length) == 0;
}

/* Is this the first command of the table that begins with its first word? */
static bool is_new(const struct ctl_command *command)
{
	size_t length = strcspn(command->name, " ");

	for (const struct ctl_command *c = ctl_commands; c != command; c++)
		if (strcspn(c->name, " ") == length && memcmp(c->name, command->name, length) == 0)
			return false;
	return true;
}

/* The second word; NULL: it has only one. */
static const char *second(const struct ctl_command *command)
{
	const char *space = strchr(command->name, ' ');

	return space ? space + 1 : NULL;
}

/* Is the first word a command by itself, too? */
static bool is_command(const struct ctl_command *command)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		if (!second(c) && strncmp(command->name, c->name, strlen(c->name)) == 0 &&
			command->name[strlen(c->name)] == ' ')
			return true;
	return false;
}

static bool is_log(const struct ctl_command *command)
{
	return strcmp(command->name, "log") == 0;
}

static bool takes_sockets(const struct ctl_command *command)
{
	return command->args && strcmp(command->args, "[SOCKET...]") == 0;
}

static bool takes_key(const struct ctl_command *command)
{
	return strcmp(command->name, "config get") == 0 || strcmp(command->name, "config set") == 0;
}

static void put_options(const struct ctl_command *command)
{
	for (int i = 0; i < CTL_OPTIONS_MAX && command->options[i].name; i++)
		printf(" %s", command->options[i].name);
	printf(" --help");
}

/* What can follow the command: options, and words for its argument. sockets: how to find these. */
static void put_choices(const struct ctl_command *command, const char *sockets)
{
	put_options(command);
	if (takes_sockets(command))
		printf(" %s", sockets);
	if (takes_key(command))
		put_keys();
	if (is_log(command))
		printf(" " LEVELS);
}

static void put_first_words(void)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		if (is_new(c))
			printf(" %.*s", (int)strcspn(c->name, " "), c->name);
}

static void put_second_words(const char *first)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		if (is_first(c, first) && second(c))
			printf(" %s", second(c));
}

/* For each command a line of a case, `"wait warm"*) …`; then one for each group, `"wait ") …`. */
static void put_cases(const char *before, const char *sockets, const char *after)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		printf("\t\"%s%s\"%s) %s", c->name, second(c) ? "" : " ", second(c) ? "" : "*",
			before);
		put_choices(c, sockets);
		/* "agents" is a command, and the first word of another one. */
		if (!second(c))
			put_second_words(c->name);
		printf("%s ;;\n", after);
	}
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		char first[64];

		if (!second(c) || !is_new(c) || is_command(c))
			continue;
		snprintf(first, sizeof first, "%.*s", (int)strcspn(c->name, " "), c->name);
		printf("\t\"%s \") %s", first, before);
		put_second_words(first);
		printf("%s ;;\n", after);
	}
}

static void put_global_options(void)
{
	for (const struct ctl_option *o = ctl_global_options; o->name; o++)
		printf(" %s", o->name);
}

static void put_bash(void)
{
	printf("# bash completion of keywakectl, made by keywakectl --completion=bash\n"
	       "_keywakectl()\n{\n"
	       "\tlocal word=${COMP_WORDS[COMP_CWORD]} i first= second= choices\n"
	       "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	       "\t\tcase ${COMP_WORDS[i]} in\n"
	       "\t\t-s|-o) ((i++)) ;;\n"
	       "\t\t-*) ;;\n"
	       "\t\t*) if [[ $first ]]; then second=${COMP_WORDS[i]}; break; fi\n"
	       "\t\t   first=${COMP_WORDS[i]} ;;\n"
	       "\t\tesac\n"
	       "\tdone\n"
	       "\tcase ${COMP_WORDS[COMP_CWORD-1]} in\n"
	       "\t-s) COMPREPLY=($(compgen -W \"$(compgen -G '" SOCKETS "')\" -- "
	       "\"$word\")\n"
	       "\t\t$(compgen -f -- \"$word\")); return ;;\n"
	       "\t-o) COMPREPLY=($(compgen -W '" FORMATS "' -- \"$word\")); return ;;\n"
	       "\t--level) COMPREPLY=($(compgen -W '" LEVELS "' -- \"$word\")); return ;;\n"
	       "\t--sort) COMPREPLY=($(compgen -W '" SORTS "' -- \"$word\")); return ;;\n"
	       "\tesac\n"
	       "\tcase \"$first $second\" in\n"
	       "\t\" \") choices=\"");
	put_global_options();
	put_first_words();
	printf("\" ;;\n");
	put_cases("choices=\"", "$(compgen -G '" SOCKETS "')", "\"");
	printf("\t*) choices= ;;\n\tesac\n"
	       "\tCOMPREPLY=($(compgen -W \"$choices\" -- \"$word\"))\n}\n"
	       "complete -F _keywakectl keywakectl\n");
}

/* Text within single quotes of a shell. */
static void put_quoted(const char *text, bool fish)
{
	for (; *text; text++)
		if (*text == '\'')
			fputs(fish ? "\\'" : "'\\''", stdout);
		else
			putchar(*text);
}

static void put_zsh(void)
{
	printf("#compdef keywakectl\n"
	       "# zsh completion of keywakectl, made by keywakectl --completion=zsh\n"
	       "_keywakectl() {\n"
	       "\tlocal first= second=\n\tlocal -i i\n\tlocal -a commands\n"
	       "\tfor ((i = 2; i < CURRENT; i++)); do\n"
	       "\t\tcase ${words[i]} in\n"
	       "\t\t-s|-o) ((i++)) ;;\n"
	       "\t\t-*) ;;\n"
	       "\t\t*) if [[ -n $first ]]; then second=${words[i]}; break; fi\n"
	       "\t\t   first=${words[i]} ;;\n"
	       "\t\tesac\n"
	       "\tdone\n"
	       "\tcase ${words[CURRENT-1]} in\n"
	       "\t-s) compadd -- " SOCKETS "(N); _files; return ;;\n"
	       "\t-o) compadd -- " FORMATS "; return ;;\n"
	       "\t--level) compadd -- " LEVELS "; return ;;\n"
	       "\t--sort) compadd -- " SORTS "; return ;;\n"
	       "\tesac\n"
	       "\tcommands=(\n");
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		if (!is_new(c))
			continue;
		printf("\t\t'%.*s:", (int)strcspn(c->name, " "), c->name);
		put_quoted(c->brief, false);
		printf("'\n");
	}
	printf("\t)\n\tcase \"$first $second\" in\n"
	       "\t\" \") _describe command commands; compadd --");
	put_global_options();
	printf(" ;;\n");
	put_cases("compadd --", SOCKETS "(N)", "");
	printf("\tesac\n}\n_keywakectl \"$@\"\n");
}

/* The words that an option takes as its value; "": others. */
static const char *words_of(const char *option)
{
	if (strcmp(option, "--level") == 0)
		return LEVELS;
	return strcmp(option, "--sort") == 0 ? SORTS : "";
}

static void put_fish_options(const struct ctl_command *command, const char *when)
{
	for (int i = 0; i < CTL_OPTIONS_MAX && command->options[i].name; i++) {
		const char *name = command->options[i].name;
		bool is_short = name[1] != '-';

		printf("complete -c keywakectl -n '%s' -%c %s%s", when, is_short ? 's' : 'l',
			name + (is_short ? 1 : 2), command->options[i].value ? " -x" : "");
		if (*words_of(name))
			printf(" -a '%s'", words_of(name));
		printf(" -d '");
		put_quoted(command->options[i].doc, true);
		printf("'\n");
	}
	if (!takes_key(command) && !is_log(command) && !takes_sockets(command))
		return;
	printf("complete -c keywakectl -n '%s' -a '", when);
	if (takes_sockets(command))
		printf("(path filter -- " SOCKETS ")");
	else if (is_log(command))
		printf(LEVELS);
	else
		put_keys();
	printf("'\n");
}

static void put_fish_command(const struct ctl_command *command)
{
	int first = (int)strcspn(command->name, " ");
	char when[160];

	if (second(command))
		snprintf(when, sizeof when,
			"__fish_seen_subcommand_from %.*s; and not __fish_seen_subcommand_from %s",
			first, command->name, second(command));
	printf("complete -c keywakectl -n '%s' -a '%s' -d '",
		second(command) ? when : "__fish_use_subcommand",
		second(command) ? second(command) : command->name);
	put_quoted(command->brief, true);
	printf("'\n");
	if (second(command))
		snprintf(when, sizeof when,
			"__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s",
			first, command->name, second(command));
	else
		snprintf(when, sizeof when, "__fish_seen_subcommand_from %s", command->name);
	put_fish_options(command, when);
}

static void put_fish(void)
{
	printf("# fish completion of keywakectl, made by keywakectl --completion=fish\n"
	       "complete -c keywakectl -f\n"
	       "complete -c keywakectl -s s -r -F -a '(path filter -- " SOCKETS ")' -d "
	       "'control socket'\n"
	       "complete -c keywakectl -s o -x -a '" FORMATS "' -d 'format'\n"
	       "complete -c keywakectl -l help -d 'show help'\n");
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		/* The first word of a group is no command of its own. */
		if (second(c) && is_new(c) && !is_command(c))
			printf("complete -c keywakectl -n __fish_use_subcommand -a %.*s\n",
				(int)strcspn(c->name, " "), c->name);
		put_fish_command(c);
	}
}

bool ctl_completion(const char *shell)
{
	if (strcmp(shell, "bash") == 0)
		put_bash();
	else if (strcmp(shell, "zsh") == 0)
		put_zsh();
	else if (strcmp(shell, "fish") == 0)
		put_fish();
	else
		return false;
	return true;
}
