#include "table/history.h"

#include "base/hash.h"

#include <stddef.h>
#include <string.h>

#define HEX "0123456789abcdef"

bool kw_history_is_id(const char *id)
{
	return strlen(id) == KW_HISTORY_ID && strspn(id, HEX) == KW_HISTORY_ID &&
	       strspn(id, "0") != KW_HISTORY_ID;
}

static bool is_printable(const char *name)
{
	for (const char *c = name; *c; c++)
		if (*c < 0x21 || *c > 0x7e)
			return false;
	return true;
}

int kw_proxy_name_check(const char *name, struct kw_error *error)
{
	if (!*name || strlen(name) > KW_PROXY_NAME_MAX)
		return kw_error_set(
			error, KW_E_CONFIG, "name: 1 to %d characters", KW_PROXY_NAME_MAX);
	if (!is_printable(name))
		return kw_error_set(
			error, KW_E_CONFIG, "name: only printable ASCII without spaces is allowed");
	return KW_OK;
}

uint64_t kw_proxy_identity(const char *name)
{
	uint64_t identity = kw_hash_key(0, 0, name, strlen(name));

	return identity ? identity : 1;
}

void kw_history_seal(struct kw_history_record *record)
{
	const size_t covered = offsetof(struct kw_history_record, standing);
	uint32_t checksum =
		kw_crc32c(0, (const uint8_t *)record + covered, sizeof *record - covered);

	record->checksum = checksum ? checksum : 1; /* 0 in the superblock means: none */
}

void kw_history_record_make(struct kw_history_record *record, const struct kw_history *history)
{
	*record = (struct kw_history_record){
		.magic = KW_HISTORY_MAGIC,
		.standing = history->standing,
		.second_offset = history->second_offset,
		.proxy = history->proxy,
		.databases = history->server.databases,
		.term = history->term,
		.term_version = history->term_version,
		.domain = history->domain,
		.mandate = (uint16_t)history->mandate,
		.lease_ms = history->lease_ms,
		.looked_version = history->looked.version,
		.looked_offset = history->looked.offset,
		.functions_version = history->functions.version,
		.functions_offset = history->functions.offset,
		.functions_bytes = history->functions.bytes,
		.functions_checksum = history->functions.checksum,
		.functions_origin = (uint16_t)history->functions.origin,
		.server = {history->server.fork, history->server.major, history->server.minor,
			history->server.patch},
	};
	memcpy(record->replid, history->replid, strlen(history->replid));
	memcpy(record->replid2, history->replid2, strlen(history->replid2));
	memcpy(record->proxy_name, history->proxy_name, strlen(history->proxy_name));
	kw_history_seal(record);
}

/* An id, or zeros for none. */
static bool take_id(const char from[KW_HISTORY_ID], char to[KW_HISTORY_ID + 1])
{
	memcpy(to, from, KW_HISTORY_ID);
	to[KW_HISTORY_ID] = '\0';
	return kw_history_is_id(to) || (to[0] == '\0' && memcmp(to, to + 1, KW_HISTORY_ID) == 0);
}

/* Does it have what its standing promises, and nothing else? */
static bool is_consistent(const struct kw_history *history)
{
	bool told = history->standing == KW_HISTORY_TOLD;

	return history->standing >= KW_HISTORY_AWAITED && history->standing <= KW_HISTORY_UNTOLD &&
	       told == (history->replid[0] != '\0') && (told || !history->replid2[0]) &&
	       history->proxy != 0 && kw_proxy_name_check(history->proxy_name, NULL) == KW_OK;
}

/* Without a mandate no term is told; with one it is told who gives it, and how old it can be. */
static bool has_mandate(const struct kw_history *history)
{
	if (history->mandate == KW_MANDATE_NONE)
		return history->term == 0 && history->term_version == 0 && history->domain == 0 &&
		       history->lease_ms == 0;
	return history->mandate <= KW_MANDATE_ELSEWHERE && history->domain != 0 &&
	       history->lease_ms != 0 && history->term <= INT64_MAX &&
	       history->term_version <= KW_VERSION_MASK;
}

/* The set lies where a proxy can have put it: after superblock and directories. */
static bool has_functions(const struct kw_history *history)
{
	const struct kw_history_functions *functions = &history->functions;

	if (functions->version == 0)
		return functions->offset == 0 && functions->bytes == 0 &&
		       functions->checksum == 0 && functions->origin == KW_FUNCTIONS_FOUND;
	return functions->bytes > 0 && functions->bytes <= KW_FUNCTIONS_BYTES &&
	       functions->offset > KW_DIRECTORY_OFFSET &&
	       functions->offset % KW_RECORD_ALIGN == 0 &&
	       functions->offset <= UINT64_MAX - KW_FUNCTIONS_BYTES &&
	       functions->origin <= KW_FUNCTIONS_TOLD;
}

bool kw_history_functions_hold(const struct kw_history_functions *functions, const void *bytes)
{
	return kw_crc32c(0, bytes, functions->bytes) == functions->checksum;
}

int kw_history_parse(const struct kw_history_record *record, uint32_t checksum,
	struct kw_history *history, struct kw_error *error)
{
	struct kw_history_record whole = *record;
	struct kw_history found = {
		.standing = (enum kw_history_standing)record->standing,
		.second_offset = record->second_offset,
		.proxy = record->proxy,
		.server = {record->server[0], record->server[1], record->server[2],
			record->server[3], record->databases},
		.mandate = (enum kw_mandate_state)record->mandate,
		.term = record->term,
		.term_version = record->term_version,
		.domain = record->domain,
		.lease_ms = record->lease_ms,
		.looked = {record->looked_version, record->looked_offset},
		.functions = {record->functions_version, record->functions_offset,
			record->functions_bytes, record->functions_checksum,
			(enum kw_functions_origin)record->functions_origin},
	};

	kw_history_seal(&whole);
	if (record->checksum != checksum || whole.checksum != checksum)
		return kw_error_set(
			error, KW_E_GONE, "history: not the one that the superblock names");
	memcpy(found.proxy_name, record->proxy_name, KW_PROXY_NAME_MAX);
	if (record->magic != KW_HISTORY_MAGIC || record->standing > KW_HISTORY_UNTOLD ||
		!take_id(record->replid, found.replid) ||
		!take_id(record->replid2, found.replid2) || !is_consistent(&found) ||
		!has_mandate(&found) || !has_functions(&found) ||
		found.looked.version > KW_VERSION_MASK)
		return kw_error_set(error, KW_E_PROTOCOL, "history: no proxy writes such a record");
	*history = found;
	return KW_OK;
}

bool kw_history_equal(const struct kw_history *a, const struct kw_history *b)
{
	return a->standing == b->standing && a->proxy == b->proxy &&
	       a->second_offset == b->second_offset && strcmp(a->replid, b->replid) == 0 &&
	       strcmp(a->replid2, b->replid2) == 0 && strcmp(a->proxy_name, b->proxy_name) == 0;
}

bool kw_history_published_equal(const struct kw_history *a, const struct kw_history *b)
{
	return kw_history_equal(a, b) && a->mandate == b->mandate && a->term == b->term &&
	       a->term_version == b->term_version && a->domain == b->domain &&
	       a->lease_ms == b->lease_ms;
}

uint64_t kw_mandate_domain(const char *kind, const char *name)
{
	uint64_t seed = kw_hash_key(0, 0, kind, strlen(kind));
	uint64_t domain = kw_hash_key(seed, 1, name, strlen(name));

	return domain ? domain : 1;
}

const char *kw_mandate_state_name(enum kw_mandate_state state)
{
	static const char *const names[] = {"none", "awaited", "confirmed", "lost", "elsewhere"};

	return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown";
}
