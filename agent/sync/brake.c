#include "brake.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

void kw_brake_init(struct kw_brake *brake, double share)
{
	assert(share >= 0.0 && share <= 1.0);
	*brake = (struct kw_brake){.share = share};
	kw_backoff_init(&brake->looks, KW_BRAKE_LOOK_LEAST_MS, KW_BRAKE_LOOK_MOST_MS);
}

uint64_t kw_brake_bound(double share, uint64_t keys)
{
	double allowed = share * (double)keys;

	if (share >= 1.0)
		return keys;
	return allowed > KW_BRAKE_FLOOR ? (uint64_t)allowed : KW_BRAKE_FLOOR;
}

bool kw_brake_must_count(const struct kw_brake *brake, uint64_t epoch, uint64_t keys)
{
	const struct kw_brake_finding most = {.epoch = epoch, .deletions = keys, .keys = keys};

	return !kw_brake_allows(brake, &most);
}

static bool is_approved(const struct kw_brake *brake, const struct kw_brake_finding *finding)
{
	return brake->approval.epoch != 0 && brake->approval.epoch == finding->epoch &&
	       finding->deletions <= brake->approval.most;
}

bool kw_brake_allows(const struct kw_brake *brake, const struct kw_brake_finding *finding)
{
	return brake->share >= 1.0 ||
	       finding->deletions <= kw_brake_bound(brake->share, finding->keys) ||
	       is_approved(brake, finding);
}

/*
 * Keys can come and go before an approval is used, and a sample varies: a tenth more is the same
 * finding. No server has so many keys that this overflows.
 */
static uint64_t margin_of(uint64_t deletions)
{
	uint64_t tenth = deletions / 10;

	return tenth > KW_BRAKE_FLOOR ? tenth : KW_BRAKE_FLOOR;
}

bool kw_brake_hold(struct kw_brake *brake, const struct kw_brake_finding *finding, uint64_t now_us)
{
	bool begins = brake->state != KW_BRAKE_HOLDS;

	assert(!kw_brake_allows(brake, finding) && finding->epoch != 0);
	brake->state = KW_BRAKE_HOLDS;
	brake->finding = *finding;
	if (begins) {
		kw_backoff_reset(&brake->looks);
		brake->holds++;
	}
	brake->look_us = now_us + kw_backoff_next_us(&brake->looks);
	return begins;
}

uint64_t kw_brake_least(uint64_t local, uint64_t table)
{
	return local > table ? local - table : 0;
}

bool kw_brake_must_look(const struct kw_brake *brake, uint64_t local, uint64_t table)
{
	const struct kw_brake_finding now = {
		.epoch = brake->finding.epoch,
		.deletions = kw_brake_least(local, table),
		.keys = local,
	};

	assert(brake->state == KW_BRAKE_HOLDS);
	return kw_brake_allows(brake, &now) ||
	       now.deletions + margin_of(now.deletions) < brake->finding.least;
}

void kw_brake_release(struct kw_brake *brake)
{
	brake->state = KW_BRAKE_FREE;
	brake->finding = (struct kw_brake_finding){0};
}

void kw_brake_approve(struct kw_brake *brake)
{
	uint64_t deletions = brake->finding.deletions;

	assert(brake->state == KW_BRAKE_HOLDS);
	brake->approval.epoch = brake->finding.epoch;
	brake->approval.most = deletions + margin_of(deletions);
	kw_brake_release(brake);
}

void kw_brake_recall(struct kw_brake *brake, uint64_t epoch, uint64_t most)
{
	brake->approval.epoch = epoch;
	brake->approval.most = most;
}

void kw_brake_consent(struct kw_brake *brake, uint64_t epoch)
{
	kw_brake_recall(brake, epoch, UINT64_MAX);
}

uint64_t kw_brake_approved(const struct kw_brake *brake, uint64_t epoch)
{
	return brake->approval.epoch != 0 && brake->approval.epoch == epoch ? brake->approval.most
									    : 0;
}

void kw_brake_let_pass(struct kw_brake *brake, uint64_t epoch, uint64_t now_us)
{
	brake->pass.epoch = epoch;
	brake->pass.until_us = now_us + KW_BRAKE_PASS_US;
}

bool kw_brake_has_passed(const struct kw_brake *brake, uint64_t epoch, uint64_t now_us)
{
	return brake->pass.epoch != 0 && brake->pass.epoch == epoch &&
	       now_us < brake->pass.until_us;
}

void kw_brake_forget(struct kw_brake *brake)
{
	brake->approval.epoch = 0;
	brake->pass.epoch = 0;
}

void kw_brake_words(const struct kw_brake *brake, char *text, size_t room)
{
	const struct kw_brake_finding *finding = &brake->finding;

	assert(brake->state == KW_BRAKE_HOLDS);
	snprintf(text, room,
		"the table lacks %s%" PRIu64 " of %" PRIu64
		" local keys, and apply.max_prune=%g lets %" PRIu64
		" go: none is deleted. If they may be deleted: keywakectl approve. If not, bring "
		"them back on the primary; that releases this by itself",
		finding->estimated ? "about " : "", finding->deletions, finding->keys, brake->share,
		kw_brake_bound(brake->share, finding->keys));
}
