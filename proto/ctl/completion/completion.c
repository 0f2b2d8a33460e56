#include "ctl/completion/completion.h"

#include <string.h>

const struct ctl_completion_value ctl_completion_values[] = {
	{"--level", CTL_LEVELS},
	{"--sort", "name kind state lag fresh records bytes keys code"},
	{"--daemon", "proxy agent gateway"},
	{NULL, NULL},
};

int ctl_completion_first(const struct ctl_command *command)
{
	return (int)strcspn(command->name, " ");
}

const char *ctl_completion_second(const struct ctl_command *command)
{
	const char *space = strchr(command->name, ' ');

	return space ? space + 1 : NULL;
}

static bool same_first(const struct ctl_command *one, const struct ctl_command *other)
{
	size_t length = strcspn(one->name, " ");

	return strcspn(other->name, " ") == length && memcmp(one->name, other->name, length) == 0;
}

bool ctl_completion_is_new(const struct ctl_command *command)
{
	for (const struct ctl_command *c = ctl_commands; c != command; c++)
		if (same_first(c, command))
			return false;
	return true;
}

bool ctl_completion_is_group(const struct ctl_command *command)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		if (same_first(c, command) && !ctl_completion_second(c))
			return false;
	return ctl_completion_is_new(command);
}

void ctl_completion_put_global_options(void)
{
	for (const struct ctl_option *o = ctl_global_options; o->name; o++)
		printf(" %s", o->name);
}

void ctl_completion_put_options(const struct ctl_command *command)
{
	for (int i = 0; i < CTL_OPTIONS_MAX && command->options[i].name; i++)
		printf(" %s", command->options[i].name);
	printf(" --help");
}

void ctl_completion_put_first_words(void)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		if (ctl_completion_is_new(c))
			printf(" %.*s", ctl_completion_first(c), c->name);
}

void ctl_completion_put_second_words(const struct ctl_command *of)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		if (same_first(c, of) && ctl_completion_second(c))
			printf(" %s", ctl_completion_second(c));
}

void ctl_completion_put_quoted(const char *text, const char *quote)
{
	for (; *text; text++)
		if (*text == '\'')
			fputs(quote, stdout);
		else
			putchar(*text);
}

bool ctl_completion(const char *shell)
{
	if (strcmp(shell, "bash") == 0)
		ctl_completion_bash();
	else if (strcmp(shell, "zsh") == 0)
		ctl_completion_zsh();
	else if (strcmp(shell, "fish") == 0)
		ctl_completion_fish();
	else
		return false;
	return true;
}
