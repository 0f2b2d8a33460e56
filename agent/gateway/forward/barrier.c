#include "barrier.h"

bool kw_barrier_parse(struct kw_slice word, uint32_t *ms)
{
	const char *text = word.data;
	uint32_t value = 0;

	if (word.length == 0)
		return false;
	for (size_t i = 0; i < word.length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint32_t)(text[i] - '0');
		if (value > KW_BARRIER_MAX_MS)
			return false;
	}
	*ms = value;
	return true;
}

static void link_in(struct kw_barrier **head, struct kw_barrier *barrier)
{
	barrier->next = *head;
	if (barrier->next)
		barrier->next->link = &barrier->next;
	barrier->link = head;
	*head = barrier;
}

static void take_out(struct kw_barrier *barrier)
{
	*barrier->link = barrier->next;
	if (barrier->next)
		barrier->next->link = barrier->link;
	barrier->link = NULL;
	barrier->next = NULL;
}

void kw_barrier_begin(
	struct kw_barriers *barriers, struct kw_barrier *barrier, uint64_t now_us, uint32_t ms)
{
	assert(!barrier->link && barrier->ended);
	barrier->begun_us = now_us;
	barrier->until_us = now_us + (uint64_t)ms * 1000;
	link_in(&barriers->first, barrier);
	barriers->count++;
}

void kw_barrier_cancel(struct kw_barriers *barriers, struct kw_barrier *barrier)
{
	if (!barrier->link)
		return;
	assert(barriers->count > 0);
	take_out(barrier);
	barriers->count--;
}

void kw_barriers_step(struct kw_barriers *barriers, uint64_t now_us, uint64_t covered_us)
{
	struct kw_barrier *ended = NULL, *barrier, *next;

	/* To a list of their own first: a function can begin another barrier, or cancel one. */
	for (barrier = barriers->first; barrier; barrier = next) {
		next = barrier->next;
		if (barrier->begun_us < covered_us || barrier->until_us <= now_us) {
			take_out(barrier);
			link_in(&ended, barrier);
		}
	}
	while ((barrier = ended) != NULL) {
		bool passed = barrier->begun_us < covered_us;

		kw_barrier_cancel(barriers, barrier);
		barrier->ended(barrier->arg, passed ? KW_BARRIER_PASSED : KW_BARRIER_TOO_LATE);
	}
}

uint64_t kw_barriers_next_us(const struct kw_barriers *barriers)
{
	uint64_t next = 0;

	for (const struct kw_barrier *b = barriers->first; b; b = b->next) {
		if (next == 0 || b->until_us < next)
			next = b->until_us;
	}
	return next;
}
