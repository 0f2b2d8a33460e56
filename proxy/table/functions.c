/*
 * The function libraries of the primary: two areas, written in turn.
 *
 *   area A ◀── the published history names it: it is not written to
 *   area B ◀── the next set, which the next publication names
 *
 * So a reader must be two publications late to find other bytes than the history says, and the
 * checksum tells it.
 */
#include "table/table_internal.h"

#include "base/hash.h"

#include <assert.h>
#include <string.h>

/* The area that readers do not know of. */
static uint64_t spare_area(const struct kw_table *table)
{
	uint64_t first = table->functions_offset;

	return table->functions_published == first ? first + KW_FUNCTIONS_BYTES : first;
}

struct kw_slice kw_table_functions(const struct kw_table *table)
{
	const struct kw_history_functions *functions = &table->history.functions;

	if (functions->version == 0)
		return (struct kw_slice){0};
	return kw_slice(table->memory.base + functions->offset, functions->bytes);
}

/* With the next publication, which writes the history before the superblock. */
static void name(struct kw_table *table, const struct kw_history_functions *functions)
{
	table->history.functions = *functions;
	table->history_stale = true;
}

void kw_table_set_functions(
	struct kw_table *table, struct kw_slice bytes, enum kw_functions_origin origin)
{
	struct kw_history_functions next = {.bytes = (uint32_t)bytes.length, .origin = origin};

	assert(table->functions_offset > 0 && table->history.standing != KW_HISTORY_NONE);
	assert(bytes.length > 0 && bytes.length <= KW_FUNCTIONS_BYTES);
	if (kw_slice_equal(bytes, kw_table_functions(table)) &&
		origin == table->history.functions.origin)
		return;
	next.version = ++table->functions_given;
	next.offset = spare_area(table);
	next.checksum = kw_crc32c(0, bytes.data, bytes.length);
	memcpy(table->memory.base + next.offset, bytes.data, bytes.length);
	name(table, &next);
}

void kw_table_forget_functions(struct kw_table *table)
{
	const struct kw_history_functions none = {0};

	if (table->history.functions.version > 0)
		name(table, &none);
}

int kw_table_adopt_functions(struct kw_table *table, struct kw_error *error)
{
	const struct kw_history_functions *functions = &table->history.functions;

	if (functions->version == 0)
		return KW_OK;
	if (table->functions_offset == 0 ||
		(functions->offset != table->functions_offset &&
			functions->offset != table->functions_offset + KW_FUNCTIONS_BYTES) ||
		!kw_history_functions_hold(functions, table->memory.base + functions->offset))
		return kw_error_set(error, KW_E_CORRUPT, "its function libraries are not whole");
	table->functions_given = functions->version;
	table->functions_published = functions->offset;
	return KW_OK;
}
