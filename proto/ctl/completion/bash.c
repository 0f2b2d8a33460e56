#include "ctl/completion/completion.h"

/*
 * What is in COMPREPLY gets onto the line as it is, so it must be words that need no quotes. Names
 * of files are left to readline (compopt -o default), which quotes them.
 */
static const char helpers[] =
	"_keywakectl_words()\n{\n"
	"\tmapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W \"$*\" -- \"$word\")\n}\n"
	"# Others choose these names: never let the shell expand one, as compgen -W would.\n"
	"_keywakectl_sockets()\n{\n"
	"\tlocal path\n"
	"\t[[ $word == -* ]] && return\n"
	"\tCOMPREPLY=()\n"
	"\tfor path in " CTL_RUN "/*.sock; do\n"
	"\t\t[[ $path == \"$word\"* && ${path##*/} != *[!" CTL_PLAIN "]* ]] && "
	"COMPREPLY+=(\"$path\")\n"
	"\tdone\n"
	"\t[[ ${#COMPREPLY[@]} -gt 0 ]] || _keywakectl_files\n}\n"
	"_keywakectl_files()\n{\n"
	"\t[[ $word == -* ]] && return\n"
	"\tCOMPREPLY=()\n"
	"\tcompopt -o default 2>/dev/null\n}\n";

void ctl_completion_bash(void)
{
	printf("# bash completion of keywakectl, made by keywakectl --completion=bash\n%s",
		helpers);
	ctl_completion_put_key_function();
	printf("_keywakectl()\n{\n"
	       "\tlocal word=${COMP_WORDS[COMP_CWORD]} socket=${KEYWAKE_SOCKET-} i first= second=\n"
	       "\tCOMPREPLY=()\n");
	ctl_completion_put_walk("COMP_WORDS", 1, "COMP_CWORD");
	ctl_completion_put_values("${COMP_WORDS[COMP_CWORD-1]}");
	printf("\tcase \"$first $second\" in\n\t\" \") _keywakectl_words");
	ctl_completion_put_global_options();
	ctl_completion_put_first_words();
	printf(" ;;\n");
	ctl_completion_put_cases();
	printf("}\ncomplete -F _keywakectl keywakectl\n");
}
