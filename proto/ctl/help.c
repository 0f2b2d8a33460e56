/* Usage and manual page, from the table of commands. */
#include "ctl/ctl.h"

#include <string.h>

#define FIGURES "With -o prometheus, the daemon's figures as Prometheus text."

const struct ctl_option ctl_global_options[] = {
	{"-s", "SOCKET", "the daemon's control socket"},
	{"-o", "FORMAT",
		"table, json or prometheus; otherwise a table on a terminal and JSON in a pipe"},
	{"--json", NULL, "the same as -o json"},
	{"--help", NULL, "show help, for all or for the command given, and exit"},
	{"--version", NULL, "show the version, and exit"},
	{0},
};

const char *ctl_with_figures(char text[CTL_CELL])
{
	int count = 0, named = 0;
	size_t at = 0;

	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		count += c->figures;
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		if (!c->figures)
			continue;
		named++;
		at += (size_t)snprintf(text + at, CTL_CELL - at, "%s%s",
			named == 1       ? ""
			: named == count ? " and "
					 : ", ",
			c->name);
	}
	return text;
}

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
	char names[CTL_CELL];

	fprintf(stream, "Usage: keywakectl [-s SOCKET] [-o FORMAT] COMMAND ...\n\nCommands:\n");
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		char left[40];

		snprintf(left, sizeof left, "%s%s%s", c->name, c->args ? " " : "",
			c->args ? c->args : "");
		fprintf(stream, "  %-24s %s\n", left, c->brief);
	}
	fprintf(stream, "\nOptions:\n");
	for (const struct ctl_option *o = ctl_global_options; o->name; o++)
		show_option(stream, o);
	fprintf(stream, "\n-o prometheus goes with %s.\n", ctl_with_figures(names));
	fprintf(stream,
		"Without -s: $KEYWAKE_SOCKET, or the only socket in /run/keywake.\n"
		"Exit status: 0 done, 1 usage or transport, 2 refused by the daemon (or verify\n"
		"found differences, or doctor something wrong), 3 timed out.\n"
		"keywakectl COMMAND --help says more.\n");
}

void ctl_help_command(const struct ctl_command *command, FILE *stream)
{
	fprintf(stream, "Usage: keywakectl [-s SOCKET] ");
	show_usage_words(stream, command);
	fprintf(stream, "\n\n%s.\n%s\n", command->brief, command->help);
	if (command->figures)
		fprintf(stream, FIGURES "\n");
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
	if (command->figures)
		put_scdoc(" " FIGURES);
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
	char names[CTL_CELL];

	printf("# OPTIONS\n\n");
	for (const struct ctl_option *o = ctl_global_options; o->name; o++) {
		put_scdoc_option(o);
		printf("\n\t");
		put_scdoc(o->doc);
		printf("\\.\n\n");
	}
	put_scdoc("-o prometheus");
	printf(" goes with %s\\. Other commands refuse it\\.\n\n", ctl_with_figures(names));
	printf("# COMMANDS\n\n");
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		put_scdoc_command(c);
}
