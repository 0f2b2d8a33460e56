#include "ctl/completion/completion.h"

static void put_keys_of(const char *daemon)
{
	printf("\t%s*:all) _keywakectl_words", daemon ? daemon : "");
	ctl_completion_put_keys(daemon, CTL_WORDS_KEYS);
	printf(" ;;\n\t%s*:live) _keywakectl_words", daemon ? daemon : "");
	ctl_completion_put_keys(daemon, CTL_WORDS_LIVE_KEYS);
	printf(" ;;\n");
}

void ctl_completion_put_key_function(void)
{
	printf("# Those of the daemon that the socket's name tells: all, or live.\n"
	       "_keywakectl_keys()\n{\n\tcase ${socket##*/}:$1 in\n");
	for (const char *const *daemon = ctl_completion_daemons; *daemon; daemon++)
		put_keys_of(*daemon);
	put_keys_of(NULL);
	printf("\tesac\n}\n");
}

void ctl_completion_put_walk(const char *words, int from, const char *current)
{
	printf("\tfor ((i = %d; i < %s; i++)); do\n"
	       "\t\tcase ${%s[i]} in\n"
	       "\t\t-s|--socket) ((i++)); socket=${%s[i]} ;;\n"
	       "\t\t-o|--output) ((i++)) ;;\n"
	       "\t\t-*) ;;\n"
	       "\t\t*) if [[ -n $first ]]; then second=${%s[i]}; break; fi\n"
	       "\t\t   first=${%s[i]} ;;\n"
	       "\t\tesac\n"
	       "\tdone\n",
		from, current, words, words, words, words);
}

void ctl_completion_put_values(const char *word)
{
	printf("\tcase %s in\n"
	       "\t-s|--socket) _keywakectl_sockets; return ;;\n"
	       "\t-o|--output) _keywakectl_words " CTL_FORMATS "; return ;;\n",
		word);
	for (const struct ctl_completion_value *v = ctl_completion_values; v->option; v++)
		printf("\t%s) _keywakectl_words %s; return ;;\n", v->option, v->words);
	printf("\tesac\n");
}

static const char *arguments_of(const struct ctl_command *command)
{
	static const char *const offers[] = {
		[CTL_WORDS_OTHER] = "",
		[CTL_WORDS_SOCKETS] = "; _keywakectl_sockets",
		[CTL_WORDS_FILES] = "; _keywakectl_files",
		[CTL_WORDS_KEYS] = "; _keywakectl_keys all",
		[CTL_WORDS_LIVE_KEYS] = "; _keywakectl_keys live",
		[CTL_WORDS_LEVELS] = " " CTL_LEVELS,
	};

	return offers[command->words];
}

void ctl_completion_put_cases(void)
{
	/* "wait warm" alone; "get " and what follows. "agents" is also a first word of two. */
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		bool whole = ctl_completion_second(c);

		printf("\t\"%s%s\"%s) _keywakectl_words", c->name, whole ? "" : " ",
			whole ? "" : "*");
		ctl_completion_put_options(c);
		if (!whole)
			ctl_completion_put_second_words(c);
		printf("%s ;;\n", arguments_of(c));
	}
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		if (!ctl_completion_is_group(c))
			continue;
		printf("\t\"%.*s \") _keywakectl_words", ctl_completion_first(c), c->name);
		ctl_completion_put_second_words(c);
		printf(" ;;\n");
	}
	printf("\tesac\n");
}
