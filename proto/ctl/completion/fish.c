#include "ctl/completion/completion.h"

#include <string.h>

#define WHEN_BYTES 160

/*
 * What a function prints is offered as it is, a line each, and fish quotes what gets onto the line.
 * `-F` is fish's own completion of files.
 */
static const char helpers[] =
	"# Others choose these names: only plain ones are offered.\n"
	"function __keywakectl_sockets\n"
	"\tfor path in " CTL_RUN "/*.sock\n"
	"\t\tstring match -qr '^" CTL_RUN "/[" CTL_PLAIN "]+$' -- $path; and echo $path\n"
	"\tend\nend\n"
	"# The name of the socket that the line is for.\n"
	"function __keywakectl_socket\n"
	"\tset -l words (commandline -opc)\n"
	"\tset -l at (contains -i -- -s $words; or contains -i -- --socket $words)\n"
	"\tset -l socket $KEYWAKE_SOCKET\n"
	"\ttest -n \"$at\"; and set socket $words[(math $at + 1)]\n"
	"\tstring replace -r '.*/' '' -- \"$socket\"\nend\n";

static void put_keys_of(const char *daemon)
{
	printf("\tcase '%s* all'\n\t\tprintf '%%s\\n'", daemon ? daemon : "");
	ctl_completion_put_keys(daemon, CTL_WORDS_KEYS);
	printf("\n\tcase '%s* live'\n\t\tprintf '%%s\\n'", daemon ? daemon : "");
	ctl_completion_put_keys(daemon, CTL_WORDS_LIVE_KEYS);
	printf("\n");
}

static void put_key_function(void)
{
	printf("# Those of the daemon that the socket's name tells: all, or live.\n"
	       "function __keywakectl_keys\n"
	       "\tset -l socket (__keywakectl_socket)\n"
	       "\tswitch \"$socket $argv[1]\"\n");
	for (const char *const *daemon = ctl_completion_daemons; *daemon; daemon++)
		put_keys_of(*daemon);
	put_keys_of(NULL);
	printf("\tend\nend\n");
}

static void put_options(const struct ctl_command *command, const char *when)
{
	for (int i = 0; i < CTL_OPTIONS_MAX && command->options[i].name; i++) {
		const char *name = command->options[i].name;
		bool is_short = name[1] != '-';

		printf("complete -c keywakectl -n '%s' -%c %s%s", when, is_short ? 's' : 'l',
			name + (is_short ? 1 : 2), command->options[i].value ? " -x" : "");
		for (const struct ctl_completion_value *v = ctl_completion_values; v->option; v++)
			if (strcmp(v->option, name) == 0)
				printf(" -a '%s'", v->words);
		printf(" -d '");
		ctl_completion_put_quoted(command->options[i].doc, "\\'");
		printf("'\n");
	}
}

static void put_arguments(const struct ctl_command *command, const char *when)
{
	static const char *const offers[] = {
		[CTL_WORDS_SOCKETS] = "-F -a '(__keywakectl_sockets)'",
		[CTL_WORDS_FILES] = "-F",
		[CTL_WORDS_KEYS] = "-a '(__keywakectl_keys all)'",
		[CTL_WORDS_LIVE_KEYS] = "-a '(__keywakectl_keys live)'",
		[CTL_WORDS_LEVELS] = "-a '" CTL_LEVELS "'",
	};

	if (command->words != CTL_WORDS_OTHER)
		printf("complete -c keywakectl -n '%s' %s\n", when, offers[command->words]);
}

static void put_command(const struct ctl_command *command)
{
	const char *second = ctl_completion_second(command);
	int first = ctl_completion_first(command);
	char when[WHEN_BYTES] = "__fish_use_subcommand";

	if (second)
		snprintf(when, sizeof when,
			"__fish_seen_subcommand_from %.*s; and not __fish_seen_subcommand_from %s",
			first, command->name, second);
	printf("complete -c keywakectl -n '%s' -a '%s' -d '", when,
		second ? second : command->name);
	ctl_completion_put_quoted(command->brief, "\\'");
	printf("'\n");
	snprintf(when, sizeof when, "__fish_seen_subcommand_from %.*s%s%s", first, command->name,
		second ? "; and __fish_seen_subcommand_from " : "", second ? second : "");
	put_options(command, when);
	put_arguments(command, when);
}

void ctl_completion_fish(void)
{
	printf("# fish completion of keywakectl, made by keywakectl --completion=fish\n%s",
		helpers);
	put_key_function();
	printf("complete -c keywakectl -f\n"
	       "complete -c keywakectl -s s -l socket -r -F -a '(__keywakectl_sockets)' -d "
	       "'control socket'\n"
	       "complete -c keywakectl -s o -l output -x -a '" CTL_FORMATS "' -d 'format'\n"
	       "complete -c keywakectl -l help -d 'show help'\n");
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		if (ctl_completion_is_group(c))
			printf("complete -c keywakectl -n __fish_use_subcommand -a %.*s\n",
				ctl_completion_first(c), c->name);
		put_command(c);
	}
}
