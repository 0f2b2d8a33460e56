#include "redis/bound.h"

#include <assert.h>

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)

#define LOGIN 16 * KIB, 8
#define SHORT 64 * KIB, 1024
#define TEXT 128 * MIB, 131072
#define PAGE 1024 * MIB, 4194304
#define VALUE KW_REPLY_MAX_BYTES, 1024

struct row {
	const char *word, *second; /* second NULL: whatever it is */
	struct kw_reply_bound bound;
};

static const struct row rows[] = {
	[KW_BOUND_SHORT] = {NULL, NULL, {"a short reply", SHORT}},
	[KW_BOUND_LOGIN] = {NULL, NULL, {"the reply to AUTH or CLIENT SETNAME", LOGIN}},
	[KW_BOUND_MESSAGE] = {NULL, NULL, {"a message", VALUE}},
	[KW_BOUND_UNASKED] = {NULL, NULL, {"a reply to no command", LOGIN}},
	/* The most frequent first. */
	[KW_BOUND_DUMP] = {"DUMP", NULL, {"the reply to DUMP", VALUE}},
	[KW_BOUND_SCAN] = {"SCAN", NULL, {"the reply to SCAN", PAGE}},
	[KW_BOUND_INFO] = {"INFO", NULL, {"the reply to INFO", TEXT}},
	[KW_BOUND_GET] = {"GET", NULL, {"the reply to GET", VALUE}},
	[KW_BOUND_CONFIG_GET] = {"CONFIG", "GET", {"the reply to CONFIG GET", SHORT}},
	[KW_BOUND_CLIENT_LIST] = {"CLIENT", "LIST", {"the reply to CLIENT LIST", PAGE}},
	[KW_BOUND_COMMAND_INFO] = {"COMMAND", "INFO", {"the reply to COMMAND INFO", TEXT}},
	[KW_BOUND_COMMAND] = {"COMMAND", NULL, {"the reply to COMMAND", TEXT}},
	[KW_BOUND_FUNCTION_LIST] = {"FUNCTION", "LIST", {"the reply to FUNCTION LIST", TEXT}},
	[KW_BOUND_FUNCTION_DUMP] = {"FUNCTION", "DUMP", {"the reply to FUNCTION DUMP", VALUE}},
};
#define ROWS (sizeof rows / sizeof *rows)

static bool is(struct kw_slice given, const char *word)
{
	return given.length == strlen(word) && memcmp(given.data, word, given.length) == 0;
}

enum kw_bound kw_bound_of(int argc, const struct kw_slice *argv)
{
	assert(argc > 0);
	for (size_t i = KW_BOUND_DUMP; i < ROWS; i++)
		if (is(argv[0], rows[i].word) &&
			(!rows[i].second || (argc > 1 && is(argv[1], rows[i].second))))
			return (enum kw_bound)i;
	return KW_BOUND_SHORT;
}

const struct kw_reply_bound *kw_bound(enum kw_bound bound)
{
	assert(bound < ROWS);
	return &rows[bound].bound;
}
