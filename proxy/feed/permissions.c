#include "feed/permissions.h"

#include "feed/notify/channel.h"

/* What each feed needs: to look, to scan and to fetch. */
/* clang-format off */
#define TO_READ \
	{{"INFO", "server"}, KW_WANTED_TRIED, "+info", "to watch the server"}, \
	{{"TIME"}, KW_WANTED_TRIED, "+time", "to compare clocks"}, \
	{{"SELECT", "-1"}, KW_WANTED_TRIED, "+select", "for databases"}, \
	{{"SCAN", "0", "COUNT", "0"}, KW_WANTED_TRIED, "+scan", "to find keys"}, \
	{{"EXISTS", KW_WANTED_KEY}, KW_WANTED_TRIED, "+exists", "to know what is gone"}, \
	{{"DUMP", KW_WANTED_KEY}, KW_WANTED_TRIED, "+dump ~*", "to read all values"}, \
	{{"PEXPIRETIME", KW_WANTED_KEY}, KW_WANTED_TRIED, "+pexpiretime", "to read TTLs"}
/* clang-format on */

static const struct kw_wanted to_read[] = {TO_READ};

/* PSYNC has no form without effect. */
static const struct kw_wanted for_stream[] = {
	TO_READ,
	{{"PING"}, KW_WANTED_TRIED, "+ping", "to follow the replication stream"},
	{{"REPLCONF"}, KW_WANTED_TRIED, "+replconf", "(the same)"},
	{{"PSYNC", "?", "-1"}, KW_WANTED_ASKED, "+psync", "(the same)"},
	{{"ROLE"}, KW_WANTED_TRIED, "+role", "to know how far the stream is"},
	{{"COMMAND", "INFO", KW_WANTED_KEY}, KW_WANTED_TRIED, "+command",
		"to know which keys a command changes"},
};

/* CONFIG comes last: source.flags=trust does without. */
static const struct kw_wanted for_notifications[] = {
	TO_READ,
	{{"CLIENT", "ID"}, KW_WANTED_TRIED, "+client|id", "to hear of flushes"},
	{{"CLIENT", "TRACKING", "OFF"}, KW_WANTED_TRIED, "+client|tracking", "(the same)"},
	{{"SUBSCRIBE", KW_CHANNEL_FLUSH}, KW_WANTED_ASKED, "+subscribe &" KW_CHANNEL_FLUSH,
		"(the same)"},
	{{"PSUBSCRIBE", KW_CHANNEL_EVENTS}, KW_WANTED_ASKED, "+psubscribe '&" KW_CHANNEL_EVENTS "'",
		"to hear of changes"},
	{{"CONFIG", "GET", KW_WANTED_KEY}, KW_WANTED_TRIED, "+config|get",
		"to look at notify-keyspace-events (or put notify-keyspace-events AE into its "
		"configuration and set source.flags=trust)"},
};

const struct kw_wanted kw_notify_set_permission = {
	{"CONFIG", "SET", "notify-keyspace-events", "AE"}, KW_WANTED_ASKED, "+config|set",
	"to set notify-keyspace-events"};

const struct kw_wanted kw_functions_permission = {{"FUNCTION", "DUMP"}, KW_WANTED_ASKED,
	"+function|dump", "to carry function libraries (source.functions)"};

size_t kw_notify_permissions(enum kw_source_flags flags, const struct kw_wanted **first)
{
	const size_t count = sizeof for_notifications / sizeof *for_notifications;

	*first = for_notifications;
	return flags == KW_SOURCE_FLAGS_TRUST ? count - 1 : count;
}

size_t kw_stream_permissions(const struct kw_wanted **first)
{
	*first = for_stream;
	return sizeof for_stream / sizeof *for_stream;
}

size_t kw_read_permissions(const struct kw_wanted **first)
{
	*first = to_read;
	return sizeof to_read / sizeof *to_read;
}
