/* The configuration keys that --help-config of the daemons prints, and whose each is. */
#include "ctl/completion/completion.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 512
#define KEY_BYTES 96
#define ALL_DAEMONS UINT_MAX

const char *const ctl_completion_daemons[] = {"proxy", "agent", "gateway", NULL};

static struct key {
	char name[KEY_BYTES];
	unsigned daemons,
		live; /* a bit for each daemon that has it; that takes it up while it runs */
} keys[KEYS_MAX];
static size_t key_count;

static unsigned bit_of(const char *daemon)
{
	for (size_t i = 0; daemon && ctl_completion_daemons[i]; i++)
		if (strcmp(ctl_completion_daemons[i], daemon) == 0)
			return 1u << i;
	return ALL_DAEMONS;
}

/* The key of that name, which is added if there is none yet; NULL: there is no room. */
static struct key *find_key(const char *name, size_t length)
{
	for (size_t i = 0; i < key_count; i++)
		if (strlen(keys[i].name) == length && memcmp(keys[i].name, name, length) == 0)
			return &keys[i];
	if (key_count == KEYS_MAX || length >= KEY_BYTES)
		return NULL;
	memcpy(keys[key_count].name, name, length);
	return &keys[key_count++];
}

/* "redis.address (text; required)", "table.max_bytes (bytes; default 0; live)". */
static void take_key(const char *line, unsigned daemons)
{
	size_t length = strspn(line, "abcdefghijklmnopqrstuvwxyz_.0123456789");
	struct key *key;

	if (length == 0 || strncmp(line + length, " (", 2) != 0)
		return;
	key = find_key(line, length);
	if (!key)
		return;
	key->daemons |= daemons;
	if (strstr(line + length, "; live)"))
		key->live |= daemons;
}

void ctl_completion_keys(FILE *stream)
{
	unsigned daemons = ALL_DAEMONS;
	char *line = NULL;
	size_t room = 0;

	/* What is said about a key is indented. */
	while (getline(&line, &room, stream) > 0) {
		if (*line == '[') {
			line[strcspn(line, "]")] = '\0';
			daemons = bit_of(line + 1);
		}
		take_key(line, daemons);
	}
	free(line);
}

void ctl_completion_put_keys(const char *daemon, enum ctl_words which)
{
	unsigned wanted = bit_of(daemon);

	for (size_t i = 0; i < key_count; i++)
		if ((which == CTL_WORDS_LIVE_KEYS ? keys[i].live : keys[i].daemons) & wanted)
			printf(" %s", keys[i].name);
}
