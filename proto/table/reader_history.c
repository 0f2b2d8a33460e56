/*
 * The history of the data set: READ once, and again when the superblock of a pass names another.
 * The pass waits for it, so the owner knows the history before it gets a record of that pass.
 */
#include "table/reader_internal.h"

#include <assert.h>

void kw_reader_history_forget(struct kw_reader *reader)
{
	reader->history = (struct kw_history){0};
	reader->history_checksum = 0;
}

bool kw_reader_history_due(struct kw_reader *reader)
{
	const uint32_t named = reader->probe.history_checksum;

	/* A recheck takes over nothing else of the superblock, either. */
	if (reader->purpose != PURPOSE_PASS || named == reader->history_checksum)
		return false;
	if (named == 0)
		kw_reader_history_forget(reader);
	return named != 0;
}

void kw_reader_history_read(struct kw_reader *reader)
{
	struct kw_read *read = &reader->history_read;

	*read = (struct kw_read){
		.offset = KW_HISTORY_OFFSET,
		.length = sizeof reader->history_record,
		.buffer = (uint8_t *)&reader->history_record,
		.reader = reader,
		.internal = (void *)(uintptr_t)reader->generation,
	};
	reader->phase = PHASE_HISTORY;
	reader->outstanding++;
	reader->io.read(reader->io.arg, &read, 1);
}

int kw_reader_history_take(struct kw_reader *reader, struct kw_error *error)
{
	const uint32_t named = reader->probe.history_checksum;
	int code = kw_history_parse(&reader->history_record, named, &reader->history, error);

	assert(reader->phase == PHASE_HISTORY && reader->purpose == PURPOSE_PASS);
	if (code == KW_OK)
		reader->history_checksum = named;
	return code;
}
