#include "command.h"

/* "$<length>\r\n" and "\r\n" around a bulk string. */
#define BULK_FRAME (1 + 2 + 2)

static int count_digits(uint64_t value)
{
	int digits = 1;

	for (; value >= 10; value /= 10)
		digits++;
	return digits;
}

static size_t bulk_length(size_t length)
{
	return BULK_FRAME + (size_t)count_digits(length) + length;
}

static uint8_t *put_number(uint8_t *at, uint64_t value)
{
	int digits = count_digits(value);

	for (int i = digits; i-- > 0; value /= 10)
		at[i] = (uint8_t)('0' + value % 10);
	return at + digits;
}

static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t length)
{
	if (length > 0)
		memcpy(at, bytes, length);
	return at + length;
}

/* Literals only: the compiler knows their length. */
#define put_literal(at, text) put_bytes(at, text, sizeof(text) - 1)

static uint8_t *put_bulk(uint8_t *at, struct kw_slice bulk)
{
	*at++ = '$';
	at = put_number(at, bulk.length);
	at = put_literal(at, "\r\n");
	at = put_bytes(at, bulk.data, bulk.length);
	return put_literal(at, "\r\n");
}

#define RESTORE_HEAD "$7\r\nRESTORE\r\n"
#define REPLACE_TAIL "$7\r\nREPLACE\r\n"
#define ABSTTL_TAIL "$6\r\nABSTTL\r\n"
#define UNLINK_HEAD "*2\r\n$6\r\nUNLINK\r\n"
#define FLUSH_COMMAND "*2\r\n$7\r\nFLUSHDB\r\n$5\r\nASYNC\r\n"
#define COUNT_HEAD "*5\r\n"

static void add_put(struct kw_window *window, const struct kw_record_view *record)
{
	bool expires = record->expires_ms != 0;
	size_t ttl_digits = (size_t)count_digits(record->expires_ms);
	size_t length = sizeof COUNT_HEAD - 1 + sizeof RESTORE_HEAD - 1 +
			bulk_length(record->key.length) + bulk_length(ttl_digits) +
			bulk_length(record->value.length) + sizeof REPLACE_TAIL - 1 +
			(expires ? sizeof ABSTTL_TAIL - 1 : 0);
	struct kw_window_entry *entry = kw_window_add(window, length);
	uint8_t *at = put_bytes(entry->bytes, expires ? "*6\r\n" : "*5\r\n", 4);

	at = put_literal(at, RESTORE_HEAD);
	at = put_bulk(at, record->key);
	entry->key_offset = (uint32_t)(at - entry->bytes - 2 - (ptrdiff_t)record->key.length);
	*at++ = '$';
	at = put_number(at, ttl_digits);
	at = put_literal(at, "\r\n");
	at = put_number(at, record->expires_ms);
	at = put_literal(at, "\r\n");
	at = put_bulk(at, record->value);
	at = put_literal(at, REPLACE_TAIL);
	if (expires)
		put_literal(at, ABSTTL_TAIL);
	entry->kind = KW_WINDOW_PUT;
	entry->key_length = (uint32_t)record->key.length;
	entry->database = record->database;
}

static void add_delete(struct kw_window *window, const struct kw_record_view *record)
{
	size_t length = sizeof UNLINK_HEAD - 1 + bulk_length(record->key.length);
	struct kw_window_entry *entry = kw_window_add(window, length);
	uint8_t *at = put_literal(entry->bytes, UNLINK_HEAD);

	at = put_bulk(at, record->key);
	entry->key_offset = (uint32_t)(at - entry->bytes - 2 - (ptrdiff_t)record->key.length);
	entry->kind = KW_WINDOW_DELETE;
	entry->key_length = (uint32_t)record->key.length;
	entry->database = record->database;
}

void kw_command_add(struct kw_window *window, const struct kw_record_view *record, bool sweeps)
{
	struct kw_window_entry *entry;

	switch (record->kind) {
	case KW_RECORD_PUT:
		add_put(window, record);
		return;
	case KW_RECORD_DELETE:
		add_delete(window, record);
		return;
	case KW_RECORD_FLUSH:
		entry = kw_window_add(window, sweeps ? 0 : sizeof FLUSH_COMMAND - 1);
		if (!sweeps)
			put_literal(entry->bytes, FLUSH_COMMAND);
		entry->kind = sweeps ? KW_WINDOW_SWEEP : KW_WINDOW_FLUSH;
		entry->database = record->database;
		return;
	case KW_RECORD_HIDDEN: /* the reader keeps these */
		return;
	}
}
