#include "mandate/sentinel_view.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void kw_sentinel_told(struct kw_sentinel *sentinel, uint64_t others, uint64_t now_us)
{
	uint32_t voters = others < KW_SENTINEL_VOTERS_MAX ? (uint32_t)others + 1 : UINT32_MAX;

	if (voters < sentinel->voters && now_us - sentinel->voters_us < KW_SENTINEL_MEMORY_US)
		return;
	sentinel->voters = voters;
	sentinel->voters_us = now_us;
}

static uint32_t configured_of(const struct kw_sentinel_view *view)
{
	uint32_t configured = 0;

	for (size_t i = 0; i < KW_SENTINELS_MAX; i++)
		configured += view->sentinels[i].present && view->sentinels[i].configured;
	return configured;
}

bool kw_sentinel_view_is_closed(const struct kw_sentinel_view *view)
{
	return configured_of(view) >= KW_SENTINELS_CLOSED;
}

/* The sentinels that count, each once: the newest answer of each id. */
struct counted {
	const struct kw_sentinel *each[KW_SENTINELS_MAX];
	size_t count;
	uint32_t doubles; /* configured addresses that lead to a sentinel of another address */
};

static void count_one(struct counted *counted, const struct kw_sentinel *sentinel)
{
	for (size_t i = 0; i < counted->count; i++) {
		if (strcmp(counted->each[i]->id, sentinel->id) != 0)
			continue;
		counted->doubles += sentinel->configured && counted->each[i]->configured;
		if (sentinel->asked_us > counted->each[i]->asked_us)
			counted->each[i] = sentinel;
		return;
	}
	counted->each[counted->count++] = sentinel;
}

static struct counted count_all(const struct kw_sentinel_view *view)
{
	struct counted counted = {.count = 0};
	bool closed = kw_sentinel_view_is_closed(view);

	for (size_t i = 0; i < KW_SENTINELS_MAX; i++) {
		const struct kw_sentinel *sentinel = &view->sentinels[i];

		if (sentinel->present && sentinel->id[0] && (sentinel->configured || !closed))
			count_one(&counted, sentinel);
	}
	return counted;
}

/* Descending. */
static int by_number(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left < right) - (left > right);
}

/* 0: nobody told of any. */
static uint32_t voters_told(const struct kw_sentinel_view *view)
{
	uint32_t told[KW_SENTINELS_MAX];
	bool closed = kw_sentinel_view_is_closed(view);
	size_t count = 0;

	for (size_t i = 0; i < KW_SENTINELS_MAX; i++) {
		const struct kw_sentinel *sentinel = &view->sentinels[i];

		if (sentinel->present && sentinel->voters > 0 && (sentinel->configured || !closed))
			told[count++] = sentinel->voters;
	}
	if (count == 0)
		return 0;
	qsort(told, count, sizeof *told, by_number);
	return told[closed ? (count - 1) / 2 : 0];
}

/* An address that told no id yet is a sentinel of its own: an unreachable one is a voter, too. */
static uint32_t voters_of(const struct kw_sentinel_view *view, const struct counted *counted)
{
	uint32_t configured = configured_of(view) - counted->doubles, told = voters_told(view);

	return configured > told ? configured : told;
}

static bool is_within(const struct kw_sentinel *sentinel, uint64_t now_us, uint64_t limit_us)
{
	assert(sentinel->asked_us <= now_us);
	return sentinel->asked_us > 0 && now_us - sentinel->asked_us <= limit_us;
}

static bool names(const struct kw_sentinel *sentinel, const char *run_id)
{
	return run_id[0] && strcmp(sentinel->primary.run_id, run_id) == 0;
}

static uint32_t agreeing(
	const struct counted *counted, const struct kw_sentinel *with, uint64_t now_us)
{
	uint32_t count = 0;

	for (size_t i = 0; i < counted->count; i++)
		count += is_within(counted->each[i], now_us, KW_SENTINEL_LEASE_US) &&
			 counted->each[i]->epoch == with->epoch &&
			 names(counted->each[i], with->primary.run_id);
	return count;
}

/* The answer in time with which most others agree; NULL: none names a server. */
static const struct kw_sentinel *most_agreed(
	const struct counted *counted, uint64_t now_us, uint32_t *count)
{
	const struct kw_sentinel *best = NULL;

	*count = 0;
	for (size_t i = 0; i < counted->count; i++) {
		uint32_t others;

		if (!is_within(counted->each[i], now_us, KW_SENTINEL_LEASE_US))
			continue;
		others = agreeing(counted, counted->each[i], now_us);
		if (others > *count) {
			*count = others;
			best = counted->each[i];
		}
	}
	return best;
}

/* The remembered answer of the highest epoch that names another server than this one. */
static const struct kw_sentinel *highest_of_another(
	const struct counted *counted, const char *run_id, uint64_t now_us)
{
	const struct kw_sentinel *highest = NULL;

	for (size_t i = 0; i < counted->count; i++)
		if (is_within(counted->each[i], now_us, KW_SENTINEL_MEMORY_US) &&
			counted->each[i]->primary.port != 0 && !names(counted->each[i], run_id) &&
			(!highest || counted->each[i]->epoch > highest->epoch))
			highest = counted->each[i];
	return highest;
}

/* The highest epoch at which a remembered answer names this server. False: none does. */
static bool own_epoch(
	const struct counted *counted, const char *run_id, uint64_t now_us, uint64_t *epoch)
{
	bool any = false;

	*epoch = 0;
	for (size_t i = 0; i < counted->count; i++) {
		if (!is_within(counted->each[i], now_us, KW_SENTINEL_MEMORY_US) ||
			!names(counted->each[i], run_id))
			continue;
		if (!any || counted->each[i]->epoch > *epoch)
			*epoch = counted->each[i]->epoch;
		any = true;
	}
	return any;
}

static void count_votes(struct kw_sentinel_verdict *verdict, const struct counted *counted,
	const char *run_id, uint64_t now_us)
{
	for (size_t i = 0; i < counted->count; i++) {
		uint32_t count;

		if (!is_within(counted->each[i], now_us, KW_SENTINEL_LEASE_US))
			continue;
		verdict->answered++;
		if (!names(counted->each[i], run_id))
			continue;
		count = agreeing(counted, counted->each[i], now_us);
		if (count > verdict->naming)
			verdict->naming = count;
	}
}

static bool is_majority(uint32_t count, uint32_t voters)
{
	return (uint64_t)count * 2 > voters;
}

/* Has a failover begun that the others do not know of yet? */
static bool is_newer_epoch(const struct counted *counted, uint64_t epoch, uint64_t now_us)
{
	for (size_t i = 0; i < counted->count; i++)
		if (is_within(counted->each[i], now_us, KW_SENTINEL_LEASE_US) &&
			counted->each[i]->epoch > epoch)
			return true;
	return false;
}

static void find(struct kw_sentinel_verdict *verdict, const struct counted *counted,
	const char *run_id, uint64_t now_us)
{
	const struct kw_sentinel *other = highest_of_another(counted, run_id, now_us);
	const struct kw_sentinel *best;
	uint64_t own = 0;
	uint32_t count;
	bool has_own = own_epoch(counted, run_id, now_us, &own);

	best = most_agreed(counted, now_us, &count);
	verdict->named = best && is_majority(count, verdict->voters);
	if (verdict->named) {
		verdict->primary = best->primary;
		verdict->epoch = best->epoch;
	}
	if (other && (has_own ? other->epoch > own : other->primary.run_id[0] != '\0')) {
		verdict->finding = KW_SENTINEL_ANOTHER;
		verdict->epoch = other->epoch;
		verdict->primary = other->primary;
		verdict->named =
			verdict->named && strcmp(best->primary.run_id, other->primary.run_id) == 0;
	} else if (verdict->named && !names(best, run_id)) {
		verdict->finding = KW_SENTINEL_ANOTHER;
	} else if (verdict->named && !is_newer_epoch(counted, best->epoch, now_us)) {
		verdict->finding = KW_SENTINEL_OURS;
	} else {
		verdict->finding = is_majority(verdict->answered, verdict->voters)
					   ? KW_SENTINEL_DIVIDED
					   : KW_SENTINEL_SILENT;
	}
}

struct kw_sentinel_verdict kw_sentinel_view_judge(
	const struct kw_sentinel_view *view, const char *run_id, uint64_t now_us)
{
	const struct counted counted = count_all(view);
	struct kw_sentinel_verdict verdict = {
		.voters = voters_of(view, &counted),
		.listed = kw_sentinel_view_is_closed(view) ? configured_of(view) : 0,
	};

	count_votes(&verdict, &counted, run_id, now_us);
	find(&verdict, &counted, run_id, now_us);
	assert(verdict.finding != KW_SENTINEL_OURS ||
		(is_majority(verdict.naming, verdict.voters) &&
			is_majority(verdict.answered, verdict.voters)));
	return verdict;
}
