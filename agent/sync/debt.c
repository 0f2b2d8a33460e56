#include "debt.h"

#include <assert.h>

#define OWED_LOWEST_MS 1000
#define OWED_HIGHEST_MS 60000
#define STRAY_LOWEST_MS 3000
#define STRAY_HIGHEST_MS 600000
/* If nothing was found for so long, the shortest pause comes again. */
#define STRAY_FORGIVEN_US 1200000000

void kw_debt_init(struct kw_debt *debt)
{
	*debt = (struct kw_debt){0};
	kw_backoff_init(&debt->owing, OWED_LOWEST_MS, OWED_HIGHEST_MS);
	kw_backoff_init(&debt->evicted.backoff, STRAY_LOWEST_MS, STRAY_HIGHEST_MS);
	kw_backoff_init(&debt->foreign.backoff, STRAY_LOWEST_MS, STRAY_HIGHEST_MS);
}

void kw_debt_assess(struct kw_debt *debt, const struct kw_debt_counts *counts)
{
	debt->evicted.count = debt->foreign.count = 0;
	debt->foreign.audited = false;
	kw_counter_begin(&debt->evicted.counter, counts->evicted, counts->resets);
	kw_counter_begin(&debt->foreign.counter, counts->foreign, counts->resets);
}

void kw_debt_forgive(struct kw_debt *debt)
{
	debt->owed_us = 0;
	debt->evicted.count = debt->foreign.count = debt->question = 0;
	debt->foreign.audited = false;
}

/* The numbers are the server's, and can be any. */
static uint64_t sum(uint64_t a, uint64_t b)
{
	return a <= UINT64_MAX - b ? a + b : UINT64_MAX;
}

/* True: it begins. */
static bool add(struct kw_debt_stray *stray, uint64_t more, uint64_t now_us)
{
	bool begins = more > 0 && stray->count == 0;

	if (more == 0)
		return false;
	if (begins) {
		if (now_us - stray->seen_us > STRAY_FORGIVEN_US)
			kw_backoff_reset(&stray->backoff);
		stray->pause_us = kw_backoff_next_us(&stray->backoff);
	}
	stray->count = sum(stray->count, more);
	stray->ever = sum(stray->ever, more);
	stray->seen_us = now_us;
	assert(stray->pause_us > 0 && stray->count > 0);
	return begins;
}

struct kw_debt_begun kw_debt_count(
	struct kw_debt *debt, const struct kw_debt_counts *counts, uint64_t now_us)
{
	const struct kw_counter_ours ours = {.most = counts->own};
	uint64_t evicted =
		kw_counter_others(&debt->evicted.counter, counts->evicted, counts->resets);

	kw_counter_look(&debt->foreign.counter, counts->foreign, counts->resets, ours);
	return (struct kw_debt_begun){
		.evicting = add(&debt->evicted, evicted, now_us),
		.writing = add(&debt->foreign, debt->foreign.counter.others, now_us),
	};
}

static bool is_due(const struct kw_debt_stray *stray, uint64_t now_us)
{
	assert(stray->count == 0 || now_us >= stray->seen_us);
	return stray->count > 0 && !stray->audited && now_us - stray->seen_us >= stray->pause_us;
}

void kw_debt_audits(struct kw_debt *debt, bool audits)
{
	debt->foreign.audited = audits && debt->foreign.count > 0;
}

void kw_debt_audited(struct kw_debt *debt)
{
	assert(debt->foreign.audited);
	debt->foreign.count = 0;
	debt->foreign.audited = false;
}

void kw_debt_doubt(struct kw_debt *debt, uint64_t doubted)
{
	debt->doubted = doubted;
}

uint64_t kw_debt_wrong(const struct kw_debt *debt)
{
	return sum(sum(debt->evicted.count, debt->foreign.count), debt->doubted);
}

enum kw_debt_due kw_debt_due(
	struct kw_debt *debt, uint64_t owed, bool acknowledged, uint64_t now_us)
{
	if (owed > 0 && acknowledged && debt->owed_us == 0)
		debt->owed_us = now_us + kw_backoff_next_us(&debt->owing);
	else if (owed > 0 && acknowledged && now_us >= debt->owed_us)
		return KW_DEBT_MEMORY;
	if (is_due(&debt->evicted, now_us))
		return KW_DEBT_EVICTED;
	if (is_due(&debt->foreign, now_us))
		return KW_DEBT_FOREIGN;
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
