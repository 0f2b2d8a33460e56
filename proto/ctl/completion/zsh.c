#include "ctl/completion/completion.h"

/* compadd and _files quote what they put on the line. */
static const char helpers[] =
	"_keywakectl_words() {\n\tcompadd -- \"$@\"\n}\n"
	"# Others choose these names: plain ones are offered here, and _files quotes all others.\n"
	"_keywakectl_sockets() {\n"
	"\tlocal name\n\tlocal -a plain\n"
	"\tfor name in " CTL_RUN "/*.sock(N:t); do\n"
	"\t\t[[ $name == *[^" CTL_PLAIN "]* ]] || plain+=(\"" CTL_RUN "/$name\")\n"
	"\tdone\n"
	"\tcompadd -a -- plain\n"
	"\t_files\n}\n"
	"_keywakectl_files() {\n\t_files\n}\n";

static void put_descriptions(void)
{
	printf("\tcommands=(\n");
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		if (!ctl_completion_is_new(c))
			continue;
		printf("\t\t'%.*s:", ctl_completion_first(c), c->name);
		ctl_completion_put_quoted(c->brief, "'\\''");
		printf("'\n");
	}
	printf("\t)\n");
}

void ctl_completion_zsh(void)
{
	printf("#compdef keywakectl\n"
	       "# zsh completion of keywakectl, made by keywakectl --completion=zsh\n%s",
		helpers);
	ctl_completion_put_key_function();
	printf("_keywakectl() {\n"
	       "\tlocal socket=${KEYWAKE_SOCKET-} first= second=\n\tlocal -i i\n"
	       "\tlocal -a commands\n");
	ctl_completion_put_walk("words", 2, "CURRENT");
	ctl_completion_put_values("${words[CURRENT-1]}");
	put_descriptions();
	printf("\tcase \"$first $second\" in\n"
	       "\t\" \") _describe command commands; _keywakectl_words");
	ctl_completion_put_global_options();
	printf(" ;;\n");
	ctl_completion_put_cases();
	printf("}\n_keywakectl \"$@\"\n");
}
