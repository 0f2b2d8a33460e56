/* What a scripted server reads: one command as hiredis writes it. */
#ifndef KW_TESTS_SCRIPTED_H
#define KW_TESTS_SCRIPTED_H

#include <stdio.h>
#include <stdlib.h>

#define WORD_BYTES 64

/* Its words, the command's name first; `argv` has room for all that a test sends. 0: the end. */
static inline int read_command(FILE *from, char argv[][WORD_BYTES])
{
	char line[WORD_BYTES];
	int argc;

	if (!fgets(line, sizeof line, from))
		return 0;
	argc = atoi(line + 1);
	for (int i = 0; i < argc; i++) {
		size_t length;

		if (!fgets(line, sizeof line, from))
			return 0;
		length = (size_t)atoi(line + 1);
		if (length + 2 >= WORD_BYTES || fread(argv[i], 1, length + 2, from) != length + 2)
			return 0;
		argv[i][length] = '\0';
	}
	return argc;
}

#endif
