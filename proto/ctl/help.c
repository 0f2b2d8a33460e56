/* Usage, manual page and completion, all from the table of commands. */
#include "ctl/ctl.h"

#include <string.h>

const struct ctl_option ctl_global_options[] = {
	{"-s", "SOCKET", "the daemon's control socket"},
	{"--json", NULL, "print JSON on a terminal too"},
	{"--help", NULL, "show help, for all or for the command given, and exit"},
	{"--version", NULL, "show the version, and exit"},
	{0},
};

static void show_option(FILE *stream, const struct ctl_option *option)
{
	char left[40];

	snprintf(left, sizeof left, "%s%s%s", option->name, option->value ? " " : "",
		option->value ? option->value : "");
	fprintf(stream, "  %-20s %s\n", left, option->doc);
}

static void show_usage_words(FILE *stream, const struct ctl_command *command)
{
	fprintf(stream, "%s%s%s", command->name, command->args ? " " : "",
		command->args ? command->args : "");
	for (int i = 0; i < CTL_OPTIONS_MAX && command->options[i].name; i++)
		fprintf(stream, " [%s%s%s]", command->options[i].name,
			command->options[i].value ? " " : "",
			command->options[i].value ? command->options[i].value : "");
}

void ctl_help(FILE *stream)
{
	fprintf(stream, "Usage: keywakectl [-s SOCKET] [--json] COMMAND ...\n\nCommands:\n");
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		char left[40];

		snprintf(left, sizeof left, "%s%s%s", c->name, c->args ? " " : "",
			c->args ? c->args : "");
		fprintf(stream, "  %-24s %s\n", left, c->brief);
	}
	fprintf(stream, "\nOptions:\n");
	for (const struct ctl_option *o = ctl_global_options; o->name; o++)
		show_option(stream, o);
	fprintf(stream,
		"\nWithout -s: $KEYWAKE_SOCKET, or the only socket in /run/keywake.\n"
		"Exit status: 0 done, 1 usage or transport, 2 refused by the daemon (or verify\n"
		"found differences), 3 timed out. keywakectl COMMAND --help says more.\n");
}

void ctl_help_command(const struct ctl_command *command, FILE *stream)
{
	fprintf(stream, "Usage: keywakectl [-s SOCKET] ");
	show_usage_words(stream, command);
	fprintf(stream, "\n\n%s.\n%s\n", command->brief, command->help);
	if (command->options[0].name)
		fprintf(stream, "\nOptions:\n");
	for (int i = 0; i < CTL_OPTIONS_MAX && command->options[i].name; i++)
		show_option(stream, &command->options[i]);
	fprintf(stream, "\nExample:\n  keywakectl %s\n", command->example);
}

/* scdoc gives meaning to these; a backslash takes it away. */
static void put_scdoc(const char *text)
{
	for (; *text; text++) {
		if (strchr("\\_*~#[]|.-<", *text))
			putchar('\\');
		putchar(*text);
	}
}

static void put_scdoc_option(const struct ctl_option *option)
{
	printf("*");
	put_scdoc(option->name);
	printf("*");
	if (option->value)
		printf(" _%s_", option->value);
}

static void put_scdoc_command(const struct ctl_command *command)
{
	printf("*");
	put_scdoc(command->name);
	printf("*");
	if (command->args) {
		putchar(' ');
		put_scdoc(command->args);
	}
	for (int i = 0; i < CTL_OPTIONS_MAX && command->options[i].name; i++) {
		printf(" \\[");
		put_scdoc_option(&command->options[i]);
		printf("\\]");
	}
	printf("\n\t");
	put_scdoc(command->brief);
	printf("\\.\n\t");
	put_scdoc(command->help);
	for (int i = 0; i < CTL_OPTIONS_MAX && command->options[i].name; i++) {
		printf("\n\n\t");
		put_scdoc_option(&command->options[i]);
		printf(": ");
		put_scdoc(command->options[i].doc);
		printf("\\.");
	}
	printf("\n\n\tExample: keywakectl ");
	put_scdoc(command->example);
	printf("\n\n");
}

void ctl_help_scdoc(void)
{
	printf("# OPTIONS\n\n");
	for (const struct ctl_option *o = ctl_global_options; o->name; o++) {
		put_scdoc_option(o);
		printf("\n\t");
		put_scdoc(o->doc);
		printf("\\.\n\n");
	}
	printf("# COMMANDS\n\n");
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		put_scdoc_command(c);
}

/* The distinct first words, or the second words after `first`. */
static void put_words(const char *first)
{
	const char *before = "";
	size_t before_length = 0, length = first ? strlen(first) : 0;

	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		size_t word = strcspn(c->name, " ");

		if (first && word == length && memcmp(c->name, first, length) == 0 &&
			c->name[word]) {
			printf(" %s", c->name + word + 1);
		} else if (!first &&
			   (word != before_length || memcmp(before, c->name, word) != 0)) {
			printf(" %.*s", (int)word, c->name);
			before = c->name;
			before_length = word;
		}
	}
}

void ctl_help_completion(void)
{
	printf("# bash completion of keywakectl, made by keywakectl --completion\n"
	       "_keywakectl()\n{\n"
	       "\tlocal word=${COMP_WORDS[COMP_CWORD]} i first= second=\n"
	       "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	       "\t\tcase ${COMP_WORDS[i]} in\n"
	       "\t\t-s) ((i++)) ;;\n"
	       "\t\t-*) ;;\n"
	       "\t\t*) if [[ $first ]]; then second=${COMP_WORDS[i]}; break; fi\n"
	       "\t\t   first=${COMP_WORDS[i]} ;;\n"
	       "\t\tesac\n"
	       "\tdone\n"
	       "\tif [[ ${COMP_WORDS[COMP_CWORD-1]} == -s ]]; then\n"
	       "\t\tCOMPREPLY=($(compgen -f -- \"$word\"))\n"
	       "\t\treturn\n"
	       "\tfi\n"
	       "\tlocal choices\n"
	       "\tcase \"$first $second\" in\n"
	       "\t\" \") choices=\"");
	for (const struct ctl_option *o = ctl_global_options; o->name; o++)
		printf("%s%s", o == ctl_global_options ? "" : " ", o->name);
	put_words(NULL);
	printf("\" ;;\n");
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		size_t word = strcspn(c->name, " ");

		if (c->name[word])
			printf("\t\"%s\") choices=\"", c->name);
		else
			printf("\t\"%s \"*) choices=\"", c->name);
		for (int i = 0; i < CTL_OPTIONS_MAX && c->options[i].name; i++)
			printf("%s ", c->options[i].name);
		printf("--help\" ;;\n");
	}
	printf("\t\"wait \") choices=\"");
	put_words("wait");
	printf("\" ;;\n\t\"config \") choices=\"");
	put_words("config");
	printf("\" ;;\n\t*) choices= ;;\n\tesac\n"
	       "\tCOMPREPLY=($(compgen -W \"$choices\" -- \"$word\"))\n}\n"
	       "complete -F _keywakectl keywakectl\n");
}
