#include "base/passed.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST 3 /* SD_LISTEN_FDS_START */

/* A decimal number and nothing else; -1. */
static long number(const char *text)
{
	char *end;
	long value;

	if (!text || *text < '0' || *text > '9')
		return -1;
	value = strtol(text, &end, 10);
	return *end ? -1 : value;
}

int kw_passed_find(
	const char *name, const char *pid, const char *count, const char *names, long self)
{
	long sockets = number(count);

	if (number(pid) != self || !names || !*name)
		return -1;
	for (long i = 0; i < sockets && i < KW_PASSED_MOST; i++) {
		size_t length = strcspn(names, ":");

		if (length == strlen(name) && memcmp(names, name, length) == 0)
			return FIRST + (int)i;
		if (!names[length])
			return -1;
		names += length + 1;
	}
	return -1;
}

int kw_passed_fd(const char *name)
{
	return kw_passed_find(name, getenv("LISTEN_PID"), getenv("LISTEN_FDS"),
		getenv("LISTEN_FDNAMES"), (long)getpid());
}
