/*
 * Completion for bash, zsh and fish: scripts that are made from the table of commands.
 *
 *   completion.c  what can be offered     keys.c  the daemons' configuration keys
 *   bash.c, zsh.c, fish.c                 the script of each
 *   cases.c                               what those of bash and zsh share
 *
 * Names of sockets: others choose them. A daemon that was taken over, and each member of the group,
 * can make a file of any name in /run/keywake, and root presses the tab key there. So no script
 * hands such a name to a shell that expands it (compgen -W, eval). A script offers names of
 * letters, digits and . _ - alone: these are the same with and without quotes. All others are left
 * to the shell's own completion of files, which quotes them.
 */
#ifndef KW_CTL_COMPLETION_COMPLETION_H
#define KW_CTL_COMPLETION_COMPLETION_H

#include "ctl/ctl.h"

/* What is printed here as words has a space before each. */

#define CTL_RUN "/run/keywake"
#define CTL_PLAIN "A-Za-z0-9._-" /* what a name may have, within the brackets of a pattern */
#define CTL_FORMATS "table json prometheus"
#define CTL_LEVELS "error warn info debug trace"

void ctl_completion_bash(void);
void ctl_completion_zsh(void);
void ctl_completion_fish(void);

/* The daemons, as the names of their sockets begin in the units; ended by NULL. */
extern const char *const ctl_completion_daemons[];

/* The keys of that daemon (NULL: of any), or its live ones: which is one of CTL_WORDS_…KEYS. */
void ctl_completion_put_keys(const char *daemon, enum ctl_words which);

/* Options whose value is one of some words; ended by a NULL option. */
struct ctl_completion_value {
	const char *option, *words;
};
extern const struct ctl_completion_value ctl_completion_values[];

void ctl_completion_put_global_options(void);
void ctl_completion_put_options(const struct ctl_command *command);
void ctl_completion_put_first_words(void);
void ctl_completion_put_second_words(const struct ctl_command *of);

int ctl_completion_first(const struct ctl_command *command);          /* length of its first word */
const char *ctl_completion_second(const struct ctl_command *command); /* NULL: it has only one */
/* Is this the first command of the table with its first word? */
bool ctl_completion_is_new(const struct ctl_command *command);
/* Is this the first one of a group whose first word is no command by itself? */
bool ctl_completion_is_group(const struct ctl_command *command);

/* Text within single quotes of a shell: each quote in it is printed as `quote`. */
void ctl_completion_put_quoted(const char *text, const char *quote);

/*
 * For bash and zsh (cases.c): these parts are the same in both. The script has the functions
 * _keywakectl_words, _keywakectl_sockets and _keywakectl_files, which offer these.
 */

/* The function _keywakectl_keys: the keys of the daemon that the name in $socket begins with. */
void ctl_completion_put_key_function(void);
/* The loop that sets first, second and socket from words[from] up to words[current - 1]. */
void ctl_completion_put_walk(const char *words, int from, const char *current);
/* What the word before, in `word`, asks for: socket, format, the value of an option. */
void ctl_completion_put_values(const char *word);
/* What can follow first and second: cases, without the one of no word, and with the esac. */
void ctl_completion_put_cases(void);

#endif
