#include "ctl/doctor/kind.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PREFIX "keywake-"

static const char *const programs[] = {PREFIX "proxy", PREFIX "agent", PREFIX "gateway"};

enum { PROXY, AGENT, GATEWAY, PROGRAMS };

/* The key itself, or one of its group, written with a dot. */
static bool has(const json_t *config, const char *name)
{
	const size_t length = strlen(name);
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)config, key, value)
	{
		if (strncmp(key, name, length) == 0 && (key[length] == '\0' || key[length] == '.'))
			return true;
	}
	return false;
}

/* The program that the file's name has in it; NULL: none. */
static const char *program_in(const char *file)
{
	const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;

	for (int i = 0; i < PROGRAMS; i++)
		if (strstr(name, programs[i] + strlen(PREFIX)))
			return programs[i];
	return NULL;
}

const char *ctl_doctor_kind(const json_t *config, const char *file)
{
	const char *named = program_in(file);

	/* A gateway follows a proxy, as an agent does, and only it has these keys. */
	if (has(config, "gateway"))
		return programs[GATEWAY];
	/* What tells it can stand in a file that this one includes. */
	if (!json_is_object(config) || (named && has(config, "include")))
		return named;
	return programs[has(config, "proxy") ? AGENT : PROXY];
}

const char *ctl_doctor_program(const char *name)
{
	for (int i = 0; i < PROGRAMS; i++)
		if (strcmp(name, programs[i]) == 0 ||
			strcmp(name, programs[i] + strlen(PREFIX)) == 0)
			return programs[i];
	return NULL;
}
