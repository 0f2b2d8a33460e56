#include "fetch/pace.h"

#include <assert.h>

/* Before anything was measured. */
#define FIRST_KEY_US 2.0
#define FIRST_OVERHEAD_US 0.6

#define OVERHEAD_LEAST_US 0.1
#define OVERHEAD_MOST_US 20000.0 /* a value of hundreds of MiB, written to a socket */
#define KEY_LEAST_US 0.2
#define KEY_MOST_US 10000000.0

#define ALONE 0.9         /* of the commands and time ours: the uncounted time is for us */
#define COUNT_LEAST 64    /* a look with so many keys tells a key's cost */
#define LEARN_BUSY 0.2    /* below, the server's timers and wakeups are most of its work */
#define FLOOR_BUSY 0.25   /* a primary short of a core still has this much time to share */
#define WANTED_OTHERS 0.1 /* others that might be made to wait */
#define WAIT_FACTOR 4     /* of the least wait known */
#define LEAST_WAIT_GROWS 1.01
#define USED_LEAST 0.01 /* of the time: below, a look now and then is enough */

static double lesser(double a, double b)
{
	return a < b ? a : b;
}

static double greater(double a, double b)
{
	return a > b ? a : b;
}

void kw_pace_init(struct kw_pace *pace, double share, uint64_t now_us)
{
	assert(share > 0);
	*pace = (struct kw_pace){
		.share = share,
		.allowed = 1,
		.key_us = FIRST_KEY_US,
		.overhead_us = FIRST_OVERHEAD_US,
		.filled_us = now_us,
	};
}

void kw_pace_set_share(struct kw_pace *pace, double share)
{
	assert(share > 0);
	pace->share = share;
}

void kw_pace_forget(struct kw_pace *pace)
{
	pace->counts = (struct kw_pace_counts){0};
	pace->allowed = 1;
	pace->tokens_us = 0;
	pace->refusals_before = 0;
	pace->least_wait_us = 0;
	pace->load = KW_PACE_UNKNOWN;
}

/* Can the next look compare with the last one? */
static bool is_known(const struct kw_pace *pace)
{
	return pace->counts.calls > 0;
}

static bool is_free(const struct kw_pace *pace)
{
	return pace->share >= 1 || pace->allowed >= 1;
}

static double burst_us(const struct kw_pace *pace)
{
	return pace->allowed * KW_PACE_BURST_US;
}

/* Keys that are held back go in batches: each batch also costs server and proxy a loop turn. */
static double batch_us(const struct kw_pace *pace)
{
	return burst_us(pace) / 2;
}

static double earned_us(const struct kw_pace *pace, uint64_t now_us)
{
	double passed_us = now_us > pace->filled_us ? (double)(now_us - pace->filled_us) : 0;

	return lesser(pace->tokens_us + passed_us * pace->allowed, burst_us(pace));
}

static uint64_t patience_end_us(const struct kw_pace *pace)
{
	return pace->allowed_us + (uint64_t)greater((double)KW_PACE_PATIENCE_US, 4 * pace->key_us);
}

bool kw_pace_allows(struct kw_pace *pace, uint64_t now_us)
{
	if (is_free(pace))
		return true;
	pace->tokens_us = earned_us(pace, now_us);
	pace->filled_us = now_us;
	if (pace->tokens_us <= 0)
		pace->state = KW_PACE_SAVING;
	else if (pace->tokens_us >= batch_us(pace))
		pace->state = KW_PACE_SPENDING;
	if (pace->state == KW_PACE_SPENDING || now_us >= patience_end_us(pace)) {
		pace->allowed_us = now_us;
		return true;
	}
	pace->refusals++;
	return false;
}

uint64_t kw_pace_ready_us(const struct kw_pace *pace, uint64_t now_us)
{
	double tokens_us = earned_us(pace, now_us);
	double least_us = pace->state == KW_PACE_SAVING || tokens_us <= 0 ? batch_us(pace) : 0;
	uint64_t earned_at_us, patience_us = patience_end_us(pace);

	if (is_free(pace) || (tokens_us > 0 && tokens_us >= least_us) || now_us >= patience_us)
		return now_us;
	earned_at_us = now_us + (uint64_t)((least_us - tokens_us) / pace->allowed) + 1;
	return earned_at_us < patience_us ? earned_at_us : patience_us;
}

void kw_pace_asked(struct kw_pace *pace)
{
	pace->keys++;
	pace->spent_us += pace->key_us;
	if (!is_free(pace))
		pace->tokens_us -= pace->key_us;
}

void kw_pace_answered(struct kw_pace *pace)
{
	pace->answered++;
}

void kw_pace_waited(struct kw_pace *pace, uint64_t us, uint32_t ahead)
{
	double wait_us = greater((double)us - (double)ahead * pace->key_us, 0);

	pace->waits_us += wait_us;
	pace->waits++;
	if (pace->least_wait_us <= 0 || wait_us < pace->least_wait_us)
		pace->least_wait_us = wait_us;
}

bool kw_pace_due(struct kw_pace *pace, uint64_t now_us)
{
	uint64_t passed_us = now_us - pace->asked_us;
	bool used = pace->refusals > 0 || pace->refusals_before > 0 ||
		    pace->spent_us > USED_LEAST * (double)(now_us - pace->looked_us);

	if (pace->share >= 1 && is_known(pace) && !used)
		return false;
	if (passed_us < (used ? KW_PACE_LOOK_US : KW_PACE_IDLE_LOOK_US))
		return false;
	pace->asked_us = now_us;
	return true;
}

/* The part of the server's commands of our kinds that was ours: others can DUMP as well. */
static double our_part(const struct kw_pace *pace, const struct kw_pace_counts *passed)
{
	if (passed->dumps <= pace->answered || passed->dumps == 0)
		return 1;
	return (double)pace->answered / (double)passed->dumps;
}

/* Did the server do next to nothing for other clients? Commands that only look do not count. */
static bool was_alone(const struct kw_pace_counts *passed, double part)
{
	double calls = (double)(passed->calls - passed->looks_calls);
	double usec = (double)(passed->usec - passed->looks_usec);

	return part * (double)passed->ours_calls >= ALONE * calls &&
	       part * (double)passed->ours_usec >= ALONE * usec;
}

/* Commands are timed by the clock. Of that the server ran for this part, and else waited. */
static double ran_part(const struct kw_pace_counts *passed)
{
	double ready_us = (double)passed->cpu_us + (double)passed->wait_us;

	return ready_us > 0 ? (double)passed->cpu_us / ready_us : 1;
}

/* What looking cost; it is not counted in full either. */
static double looks_us(const struct kw_pace *pace, const struct kw_pace_counts *passed)
{
	double cost_us = ran_part(passed) * (double)passed->looks_usec +
			 pace->overhead_us * (double)passed->looks_calls;

	return lesser(cost_us, (double)passed->cpu_us);
}

/* Alone and at work: the time that no command accounts for was spent on us. */
static void learn_overhead(struct kw_pace *pace, const struct kw_pace_counts *passed)
{
	double counted_us = ran_part(passed) * (double)passed->usec;
	double sample_us = ((double)passed->cpu_us - counted_us) / (double)passed->calls;

	sample_us = lesser(greater(sample_us, OVERHEAD_LEAST_US), OVERHEAD_MOST_US);
	pace->overhead_us += (sample_us - pace->overhead_us) / 4;
}

/*
 * What is counted, and what was learnt about the rest; at most the CPU time that others are not
 * known to have taken.
 */
static double reckon_cost(
	const struct kw_pace *pace, const struct kw_pace_counts *passed, double part)
{
	double ours_us = part * ran_part(passed) * (double)passed->ours_usec;
	double all_us = ran_part(passed) * (double)(passed->usec - passed->looks_usec);
	double most_us = greater((double)passed->cpu_us - (all_us - ours_us), ours_us);

	ours_us += pace->overhead_us * part * (double)passed->ours_calls;
	return lesser(lesser(ours_us, most_us), (double)passed->cpu_us);
}

/* What fetching cost the primary since the last look. */
static double measure_cost(struct kw_pace *pace, const struct kw_pace_counts *passed)
{
	bool enough = pace->answered >= COUNT_LEAST;
	double part = our_part(pace, passed);
	double cost_us;

	if (enough && pace->busy >= LEARN_BUSY && was_alone(passed, part)) {
		learn_overhead(pace, passed);
		cost_us = (double)passed->cpu_us - looks_us(pace, passed);
	} else {
		cost_us = reckon_cost(pace, passed, part);
	}
	if (enough) {
		pace->key_us += (cost_us / (double)pace->answered - pace->key_us) / 2;
		pace->key_us = lesser(greater(pace->key_us, KEY_LEAST_US), KEY_MOST_US);
	}
	return cost_us;
}

static bool waits_long(const struct kw_pace *pace)
{
	return pace->waits > 0 &&
	       pace->waits_us / pace->waits > KW_PACE_WAIT_US + WAIT_FACTOR * pace->least_wait_us;
}

/* A server that gets little of a core gives others little: scale their part up. */
static double wanted_by(const struct kw_pace *pace, double others)
{
	return pace->busy > 0 ? others * (pace->busy + pace->waiting) / pace->busy : 0;
}

/* wanted: the part of the time that others wanted. */
static bool is_saturated(const struct kw_pace *pace, double wanted)
{
	if (wanted < KW_PACE_OTHERS_LEAST)
		return false; /* only fetching takes its time */
	return pace->busy + pace->waiting >= KW_PACE_BUSY_MOST ||
	       (wanted >= WANTED_OTHERS && waits_long(pace));
}

static enum kw_pace_load judge_load(const struct kw_pace *pace, double wanted)
{
	if (is_saturated(pace, wanted))
		return KW_PACE_SATURATED;
	if (pace->load == KW_PACE_SATURATED && wanted >= KW_PACE_OTHERS_LEAST &&
		pace->busy + pace->waiting >= KW_PACE_BUSY_SPARE)
		return KW_PACE_SATURATED;
	return KW_PACE_SPARE;
}

/* others: the part of the time that they took. */
static void adjust(struct kw_pace *pace, double others)
{
	double wanted = wanted_by(pace, others);
	double floor = pace->share * greater(pace->busy, FLOOR_BUSY);
	double ready = pace->busy + pace->waiting;

	pace->load = judge_load(pace, wanted);
	if (wanted < KW_PACE_OTHERS_LEAST) {
		pace->allowed = 1;
		return;
	}
	if (is_saturated(pace, wanted)) {
		/* From no limit at all, the way down begins at what was taken. */
		pace->allowed = lesser(pace->allowed, greater(pace->taken, 2 * floor)) / 2;
	} else {
		pace->allowed += (KW_PACE_BUSY_AIM - ready) / 2;
		pace->allowed = lesser(pace->allowed, 1 - others);
	}
	pace->allowed = lesser(greater(pace->allowed, floor), 1 - KW_PACE_OTHERS_LEAST);
	assert(pace->allowed > 0 && pace->allowed < 1);
}

/* Counters only grow, unless another client reset them. */
static bool subtract(struct kw_pace_counts *passed, const struct kw_pace_counts *now,
	const struct kw_pace_counts *then)
{
	*passed = (struct kw_pace_counts){
		.cpu_us = now->cpu_us - then->cpu_us,
		.wait_us = now->wait_us - then->wait_us,
		.usec = now->usec - then->usec,
		.calls = now->calls - then->calls,
		.ours_usec = now->ours_usec - then->ours_usec,
		.ours_calls = now->ours_calls - then->ours_calls,
		.looks_usec = now->looks_usec - then->looks_usec,
		.looks_calls = now->looks_calls - then->looks_calls,
		.dumps = now->dumps - then->dumps,
	};
	return now->cpu_us >= then->cpu_us && now->wait_us >= then->wait_us &&
	       now->usec >= then->usec && now->calls >= then->calls &&
	       now->ours_usec >= then->ours_usec && now->ours_calls >= then->ours_calls &&
	       now->looks_usec >= then->looks_usec && now->looks_calls >= then->looks_calls &&
	       now->dumps >= then->dumps;
}

static void begin_anew(struct kw_pace *pace, const struct kw_pace_counts *counts, uint64_t now_us)
{
	pace->counts = *counts;
	pace->looked_us = now_us;
	pace->keys = pace->answered = 0;
	pace->spent_us = 0;
	pace->refusals = 0;
	pace->waits_us = 0;
	pace->waits = 0;
	pace->least_wait_us *= LEAST_WAIT_GROWS;
}

void kw_pace_look(struct kw_pace *pace, const struct kw_pace_counts *counts, uint64_t now_us)
{
	struct kw_pace_counts passed;
	double elapsed_us = (double)(now_us - pace->looked_us);
	double cost_us, others;

	if (!is_known(pace) || now_us <= pace->looked_us ||
		!subtract(&passed, counts, &pace->counts)) {
		begin_anew(pace, counts, now_us);
		return;
	}
	pace->busy = lesser((double)passed.cpu_us / elapsed_us, 1);
	pace->waiting = lesser((double)passed.wait_us / elapsed_us, 1 - pace->busy);
	cost_us = measure_cost(pace, &passed);
	pace->taken = lesser(cost_us / elapsed_us, pace->busy);
	assert(cost_us >= 0 && pace->key_us > 0);
	pace->refusals_before = pace->refusals;
	if (!is_free(pace)) {
		pace->tokens_us = earned_us(pace, now_us) - (cost_us - pace->spent_us);
		pace->tokens_us =
			greater(lesser(pace->tokens_us, burst_us(pace)), -KW_PACE_OWED_US);
	}
	pace->filled_us = now_us;
	pace->cost_us += pace->taken * elapsed_us + looks_us(pace, &passed);
	others = pace->busy - pace->taken - looks_us(pace, &passed) / elapsed_us;
	adjust(pace, others);
	begin_anew(pace, counts, now_us);
}

enum kw_pace_load kw_pace_load(const struct kw_pace *pace, uint64_t now_us)
{
	return now_us < pace->looked_us + KW_PACE_LOAD_US ? pace->load : KW_PACE_UNKNOWN;
}

bool kw_pace_lets_wait(const struct kw_pace *pace, uint64_t now_us)
{
	enum kw_pace_load load = kw_pace_load(pace, now_us);

	return load == KW_PACE_SATURATED || (load == KW_PACE_UNKNOWN && pace->share >= 1);
}

void kw_pace_report(const struct kw_pace *pace, struct kw_pace_report *report)
{
	*report = (struct kw_pace_report){
		.target = pace->share,
		.taken = pace->taken,
		.busy = pace->busy,
		.waiting = pace->waiting,
		.allowed = is_free(pace) ? 1 : pace->allowed,
		.key_us = pace->key_us,
		.cost_us = pace->cost_us,
		.holding = pace->refusals_before > 0 && !is_free(pace),
	};
}
