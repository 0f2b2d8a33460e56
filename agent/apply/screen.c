#include "screen.h"

#include "base/log.h"
#include "rdb/payload.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/*
 * Every server with vector sets loads encoding 0. A later one might be too new for it, and a server
 * that cannot load a module's value stops.
 */
static bool is_known_vector_set(struct kw_slice payload)
{
	unsigned encoding;

	return kw_payload_is_vector_set(payload, &encoding) && encoding == 0;
}

bool kw_screen_record(const struct kw_record_view *record, const struct kw_screen_server *server,
	char *why, size_t room)
{
	const char *type;

	assert(room > 0);
	/* 0: not known yet. Then there is no room, so nothing should come. */
	if (record->database >= server->databases) {
		snprintf(why, room,
			"the local server has no database %u: raise its `databases`, or leave it "
			"out by filter.databases",
			record->database);
		return false;
	}
	if (record->kind != KW_RECORD_PUT)
		return true;
	if (server->vector_sets && is_known_vector_set(record->value))
		return true;
	type = record->value.length ? kw_payload_type_name(record->value) : "empty";
	if (strcmp(type, "module") == 0 || strcmp(type, "unknown") == 0) {
		snprintf(why, room,
			"a value of type %s would stop a server that does not know it: use "
			"apply.mode=commands for it",
			type);
		return false;
	}
	return true;
}

bool kw_screen_payload(struct kw_slice payload, uint16_t local, char *why, size_t room)
{
	struct kw_error error;
	uint16_t version;

	assert(room > 0);
	if (kw_payload_check(payload, &version, &error)) {
		snprintf(why, room, "%.*s", (int)room - 1, error.text);
		return false;
	}
	if (kw_server_loads_rdb(local, version))
		return true;
	snprintf(why, room, "a payload of RDB version %u, the local server loads %u", version,
		local);
	return false;
}

void kw_screen_quarantine(struct kw_quarantine *quarantine, uint32_t database, struct kw_slice key,
	struct kw_slice why)
{
	size_t shown = key.length < KW_QUARANTINE_KEY ? key.length : KW_QUARANTINE_KEY;

	kw_quarantine_enter(quarantine, database, key, why);
	if (quarantine->ever <= KW_QUARANTINE_NAMES)
		kw_log_database(KW_LOG_ERROR, "apply", database,
			"database %u, key %.*s: quarantined: %.*s", database, (int)shown,
			shown ? (const char *)key.data : "", (int)why.length,
			why.length ? (const char *)why.data : "");
}
