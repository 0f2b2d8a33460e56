#include "rename.h"

#include <assert.h>

/* Room for all names of a batch, so that none moves when the next one is written. */
static void make_room(struct kw_rename *rename, const struct kw_record_view *records, size_t count)
{
	size_t bytes = 1;

	for (size_t i = 0; i < count; i++)
		bytes += records[i].key.length + KW_NAMING_PREFIX_BYTES;
	kw_naming_clear(&rename->names);
	kw_buffer_reserve(&rename->names, bytes);
}

const struct kw_record_view *kw_rename_records(
	struct kw_rename *rename, const struct kw_record_view *records, size_t count)
{
	const struct kw_naming *naming = rename->naming;

	if (kw_naming_is_identity(naming))
		return records;
	assert(count <= KW_RECORD_BATCH_MAX);
	make_room(rename, records, count);
	for (size_t i = 0; i < count; i++) {
		struct kw_record_view *view = &rename->views[i];

		*view = records[i];
		view->database = kw_naming_local_database(naming, view->database);
		if (view->kind != KW_RECORD_FLUSH)
			view->key = kw_naming_append_local_key(naming, view->key, &rename->names);
	}
	return rename->views;
}

void kw_rename_close(struct kw_rename *rename)
{
	kw_buffer_close(&rename->names);
}
