#include "fetch/scan.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURSOR_BYTES 24 /* an unsigned 64-bit number as text */

struct kw_scan {
	struct kw_data_connection *data;
	struct kw_scan_handlers handlers;
	uint32_t *databases;
	uint32_t count, at; /* at == count: done */
	char cursor[CURSOR_BYTES];
	uint32_t owed;     /* steps in flight */
	uint32_t outdated; /* of them, those of scans that were given up; they are answered first */
};

struct kw_scan *kw_scan_new(
	struct kw_data_connection *data, const struct kw_scan_handlers *handlers)
{
	struct kw_scan *scan = kw_zalloc(sizeof *scan);

	scan->data = data;
	scan->handlers = *handlers;
	return scan;
}

void kw_scan_free(struct kw_scan *scan)
{
	if (!scan)
		return;
	assert(scan->owed == 0);
	free(scan->databases);
	free(scan);
}

static void rewind_cursor(struct kw_scan *scan)
{
	strcpy(scan->cursor, "0");
}

void kw_scan_stop(struct kw_scan *scan)
{
	scan->outdated = scan->owed;
	scan->at = scan->count;
}

void kw_scan_begin(struct kw_scan *scan, const uint32_t *databases, uint32_t count)
{
	kw_scan_stop(scan);
	scan->databases = kw_realloc(scan->databases, (count + 1) * sizeof *scan->databases);
	for (uint32_t i = 0; i < count; i++)
		scan->databases[i] = databases[i];
	assert(scan->outdated == scan->owed);
	scan->count = count;
	scan->at = 0;
	rewind_cursor(scan);
}

static bool well_formed(const struct kw_reply *reply)
{
	return reply->type == KW_REPLY_ARRAY && reply->count == 2 &&
	       reply->elements[0].type == KW_REPLY_STRING && reply->elements[0].text.length > 0 &&
	       reply->elements[0].text.length < CURSOR_BYTES &&
	       reply->elements[1].type == KW_REPLY_ARRAY;
}

static void take_step(struct kw_scan *scan, const struct kw_reply *reply)
{
	struct kw_slice cursor = reply->elements[0].text;
	const struct kw_reply *keys = &reply->elements[1];
	uint32_t database;

	assert(!kw_scan_done(scan));
	database = scan->databases[scan->at];
	memcpy(scan->cursor, cursor.data, cursor.length);
	scan->cursor[cursor.length] = '\0';
	if (strcmp(scan->cursor, "0") == 0) {
		scan->at++;
		rewind_cursor(scan);
	}
	if (scan->handlers.answered)
		scan->handlers.answered(scan->handlers.arg);
	for (size_t i = 0; i < keys->count; i++)
		if (keys->elements[i].type == KW_REPLY_STRING)
			scan->handlers.key(scan->handlers.arg, database, keys->elements[i].text);
}

static void step_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_scan *scan = arg;

	assert(scan->owed > 0 && scan->outdated <= scan->owed);
	scan->owed--;
	if (scan->outdated > 0) {
		scan->outdated--;
		return;
	}
	reply = kw_data_reply(scan->data, reply);
	if (!reply)
		return;
	if (!well_formed(reply))
		kw_data_refused(scan->data, "SCAN", "+scan", reply);
	else
		take_step(scan, reply);
}

void kw_scan_pump(struct kw_scan *scan, uint32_t keys)
{
	char count[16];

	if (kw_scan_asked(scan) || kw_scan_done(scan) || keys == 0 || kw_data_is_broken(scan->data))
		return;
	snprintf(count, sizeof count, "%u", keys < KW_SCAN_COUNT ? keys : KW_SCAN_COUNT);
	kw_data_select(scan->data, scan->databases[scan->at]);
	kw_data_words(scan->data, step_answered, scan, "SCAN", scan->cursor, "COUNT", count,
		scan->handlers.type ? "TYPE" : NULL, scan->handlers.type, NULL);
	scan->owed++;
}

bool kw_scan_asked(const struct kw_scan *scan)
{
	assert(scan->owed - scan->outdated <= 1);
	return scan->owed > scan->outdated;
}

bool kw_scan_done(const struct kw_scan *scan)
{
	return scan->at == scan->count;
}
