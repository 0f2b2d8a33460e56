#include "debt.h"

#include <assert.h>

#define OWED_LOWEST_MS 1000
#define OWED_HIGHEST_MS 60000
#define EVICTED_LOWEST_MS 3000
#define EVICTED_HIGHEST_MS 600000
/* A server that has evicted nothing for so long begins with the shortest pause again. */
#define EVICTED_FORGIVEN_US 1200000000

void kw_debt_init(struct kw_debt *debt)
{
	*debt = (struct kw_debt){0};
	kw_backoff_init(&debt->owing, OWED_LOWEST_MS, OWED_HIGHEST_MS);
	kw_backoff_init(&debt->evicting, EVICTED_LOWEST_MS, EVICTED_HIGHEST_MS);
}

void kw_debt_assess(struct kw_debt *debt, uint64_t evicted, uint64_t resets)
{
	debt->evicted = 0;
	kw_counter_begin(&debt->evictions, evicted, resets);
}

void kw_debt_forgive(struct kw_debt *debt)
{
	debt->owed_us = 0;
	debt->evicted = debt->question = 0;
}

/* The numbers are the server's, and can be any. */
static uint64_t sum(uint64_t a, uint64_t b)
{
	return a <= UINT64_MAX - b ? a + b : UINT64_MAX;
}

bool kw_debt_count(struct kw_debt *debt, uint64_t evicted, uint64_t resets, uint64_t now_us)
{
	uint64_t more = kw_counter_others(&debt->evictions, evicted, resets);
	bool begins = more > 0 && debt->evicted == 0;

	if (more == 0)
		return false;
	if (begins) {
		if (now_us - debt->evicted_us > EVICTED_FORGIVEN_US)
			kw_backoff_reset(&debt->evicting);
		debt->pause_us = kw_backoff_next_us(&debt->evicting);
	}
	debt->evicted = sum(debt->evicted, more);
	debt->evicted_ever = sum(debt->evicted_ever, more);
	debt->evicted_us = now_us;
	assert(debt->pause_us > 0 && debt->evicted > 0);
	return begins;
}

enum kw_debt_due kw_debt_due(
	struct kw_debt *debt, uint64_t owed, bool acknowledged, uint64_t now_us)
{
	assert(debt->evicted == 0 || now_us >= debt->evicted_us);
	if (owed > 0 && acknowledged && debt->owed_us == 0)
		debt->owed_us = now_us + kw_backoff_next_us(&debt->owing);
	else if (owed > 0 && acknowledged && now_us >= debt->owed_us)
		return KW_DEBT_MEMORY;
	if (debt->evicted > 0 && now_us - debt->evicted_us >= debt->pause_us)
		return KW_DEBT_EVICTED;
	return KW_DEBT_NONE;
}

void kw_debt_settled(struct kw_debt *debt)
{
	kw_backoff_reset(&debt->owing);
}

void kw_debt_ask(struct kw_debt *debt, uint64_t question)
{
	assert(question > 0 && debt->question == 0);
	debt->question = question;
}

bool kw_debt_kept(const struct kw_debt *debt, uint64_t answered)
{
	return debt->question > 0 && answered >= debt->question;
}
