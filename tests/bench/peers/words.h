/* A yardstick's command line: --name NUMBER anywhere behind the addresses, or a bare --name. */
#ifndef KW_BENCH_WORDS_H
#define KW_BENCH_WORDS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline double words_number(int argc, char **argv, const char *name, double fallback)
{
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return strtod(argv[i + 1], NULL);
	return fallback;
}

static inline bool words_have(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return false;
}

#endif
