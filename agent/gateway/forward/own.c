#include "own.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>

static bool is_open(const struct kw_own_mark *mark, uint64_t covered_us)
{
	return mark->last > 0 || (mark->wrote_us > 0 && mark->wrote_us >= covered_us);
}

bool kw_own_all_covered(const struct kw_own *own, uint64_t covered_us)
{
	return own->writes == 0 && (own->wrote_us == 0 || own->wrote_us < covered_us);
}

static bool is_written(const struct kw_own *own, uint64_t hash, uint64_t covered_us)
{
	for (int i = 0; i < KW_OWN_MARKS; i++)
		if (own->marks[i].hash == hash && is_open(&own->marks[i], covered_us))
			return true;
	return false;
}

/* Does the table hold all that the client has written of these keys? */
static bool holds_its_writes(const struct kw_own *own, const struct kw_own_facts *facts)
{
	const struct kw_own_keys *keys = facts->keys;

	if (kw_own_all_covered(own, facts->covered_us))
		return true;
	if (!keys || keys->all || !own->marks || is_open(&own->any, facts->covered_us))
		return false;
	for (uint32_t i = 0; i < keys->count; i++)
		if (is_written(own, keys->hashes[i], facts->covered_us))
			return false;
	return true;
}

enum kw_own_place kw_own_judge(const struct kw_own *own, const struct kw_own_facts *facts)
{
	if (facts->want == KW_OWN_READS_TABLE && holds_its_writes(own, facts))
		return KW_OWN_TABLE;
	if (facts->want == KW_OWN_BARRIER)
		return own->forwarded > 0 ? KW_OWN_WAIT : KW_OWN_TABLE;
	if (own->forwarded > 0 && own->line != facts->line)
		return KW_OWN_WAIT;
	if (facts->want == KW_OWN_WRITES && facts->gets > 0)
		return KW_OWN_WAIT;
	return KW_OWN_PRIMARY;
}

/* The key's mark, or one that is not needed any more. None: what stands for all keys. */
static struct kw_own_mark *mark_for(struct kw_own *own, uint64_t hash, uint64_t covered_us)
{
	struct kw_own_mark *spare = NULL;

	for (int i = 0; i < KW_OWN_MARKS; i++) {
		struct kw_own_mark *mark = &own->marks[i];
		const bool open = is_open(mark, covered_us);

		if (open && mark->hash == hash)
			return mark;
		if (!open && !spare)
			spare = mark;
	}
	if (!spare)
		return &own->any;
	*spare = (struct kw_own_mark){.hash = hash};
	return spare;
}

static void note_write(struct kw_own *own, const struct kw_own_keys *keys, uint64_t covered_us)
{
	own->writes++;
	own->number++;
	if (!own->marks)
		own->marks = kw_zalloc(KW_OWN_MARKS * sizeof *own->marks);
	if (keys->all)
		own->any.last = own->number;
	for (uint32_t i = 0; !keys->all && i < keys->count; i++)
		mark_for(own, keys->hashes[i], covered_us)->last = own->number;
}

uint64_t kw_own_sent(
	struct kw_own *own, uint32_t line, const struct kw_own_keys *keys, uint64_t covered_us)
{
	assert(own->forwarded == 0 || own->line == line);
	own->line = line;
	own->forwarded++;
	if (!keys)
		return 0;
	note_write(own, keys, covered_us);
	return own->number;
}

/* Whichever of the writes it was: a later moment than that of the mark's own write does no harm. */
static void note_answer(struct kw_own_mark *mark, uint64_t number, uint64_t now_us)
{
	if (mark->last == 0)
		return;
	if (now_us > 0)
		mark->wrote_us = now_us;
	if (mark->last == number)
		mark->last = 0;
}

void kw_own_answered(struct kw_own *own, uint64_t number, uint64_t now_us)
{
	assert(own->forwarded > 0);
	own->forwarded--;
	if (number == 0)
		return;
	assert(own->writes > 0 && own->marks);
	own->writes--;
	if (now_us > 0)
		own->wrote_us = now_us;
	note_answer(&own->any, number, now_us);
	for (int i = 0; i < KW_OWN_MARKS; i++)
		note_answer(&own->marks[i], number, now_us);
}

void kw_own_close(struct kw_own *own)
{
	free(own->marks);
	own->marks = NULL;
}
