#include "plan.h"

#include <assert.h>
#include <stdlib.h>

/* Does a cursor stand where a library of the table must go? */
static bool clashes(
	struct kw_plan *plan, const struct kw_libraries *table, const struct kw_libraries *local)
{
	for (size_t i = 0; i < table->count; i++) {
		if (!kw_libraries_has_cursor(local, table->all[i].name))
			continue;
		plan->clash = table->all[i].name;
		return true;
	}
	return false;
}

static void delete_others(
	struct kw_plan *plan, const struct kw_libraries *table, const struct kw_libraries *local)
{
	plan->deleted = kw_alloc((local->count + 1) * sizeof *plan->deleted);
	for (size_t i = 0; i < local->count; i++)
		if (!kw_libraries_find(table, local->all[i].name))
			plan->deleted[plan->change.deleted_count++] = local->all[i].name;
	plan->change.deleted = plan->deleted;
}

static void load_missing(struct kw_plan *plan, const struct kw_libraries *table,
	const struct kw_libraries *local, uint16_t rdb_version)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct kw_library *here = kw_libraries_find(local, table->all[i].name);

		if (!here || !kw_slice_equal(here->code, table->all[i].code))
			kw_libraries_put(table->all[i].code, &plan->payload);
	}
	if (kw_buffer_length(&plan->payload) == 0)
		return;
	kw_libraries_end(rdb_version, 0, &plan->payload);
	plan->change.payload =
		kw_slice(kw_buffer_bytes(&plan->payload), kw_buffer_length(&plan->payload));
}

void kw_plan_make(struct kw_plan *plan, const struct kw_libraries *table,
	const struct kw_libraries *local, enum kw_plan_absence absence, uint16_t rdb_version)
{
	assert(!plan->deleted && kw_buffer_length(&plan->payload) == 0);
	if (clashes(plan, table, local)) {
		plan->verdict = KW_PLAN_CLASH;
		return;
	}
	if (table->count == 0 && local->count > 0 && absence == KW_PLAN_ABSENCE_DOUBTED) {
		plan->verdict = KW_PLAN_HELD;
		plan->held = local->count;
		return;
	}
	delete_others(plan, table, local);
	load_missing(plan, table, local, rdb_version);
	plan->verdict = plan->change.deleted_count > 0 || plan->change.payload.length > 0
				? KW_PLAN_CHANGE
				: KW_PLAN_EQUAL;
}

void kw_plan_close(struct kw_plan *plan)
{
	free(plan->deleted);
	kw_buffer_close(&plan->payload);
	*plan = (struct kw_plan){0};
}
