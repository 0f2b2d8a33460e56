/*
 * What the server says of its commands: COMMAND, as a catalog of which words are keys.
 *
 * It is asked at each start of the feed, and again after a command that is not in it: a module may
 * have been loaded since. That is not more often than each ten seconds.
 *
 * The owner provides the struct, zeroed but for its first members. Loop thread only.
 */
#ifndef KW_PROXY_FEED_STREAM_COMMANDS_H
#define KW_PROXY_FEED_STREAM_COMMANDS_H

#include "base/error.h"
#include "fetch/data.h"
#include "stream/catalog.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_COMMANDS_EVERY_US UINT64_C(10000000)

struct kw_commands {
	struct kw_data_connection *data;
	const char *username;
	/* There is a new catalog. The one before it is freed after the call. */
	void (*learnt)(void *arg, const struct kw_repl_catalog *catalog);
	void (*refused)(void *arg, const struct kw_error *why);
	void *arg;

	struct kw_repl_catalog *catalog; /* NULL: it was never answered */
	uint64_t asked_us;
};

void kw_commands_close(struct kw_commands *commands);

/* learnt or refused follows, unless the data connection breaks. */
void kw_commands_ask(struct kw_commands *commands);

/* A command was not in the catalog. */
void kw_commands_ask_again(struct kw_commands *commands);

#endif
