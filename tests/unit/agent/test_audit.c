/* A whole agent and its audit: what it must not claim while a key differs, or cannot be read. */
#include "stage.h"

#include "audit/suspects.h"
#include "base/clock.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FAST 100000
#define KEYS 1000

static struct kw_audit_report report_of(const struct stage *stage)
{
	struct kw_audit_report report;

	kw_audit_report(stage->agent->audit, kw_clock_us(), &report);
	return report;
}

/* Rounds that began and ended since stage->seen was set. */
static bool is_round_over(void *arg)
{
	const struct stage *stage = arg;

	return report_of(stage).rounds >= stage->seen + 2;
}

static void wait_round(struct stage *stage)
{
	stage->seen = report_of(stage).rounds;
	stage_wait(stage, is_round_over, "a round of the audit");
}

static bool is_unmended(void *arg)
{
	return report_of(arg).unmended > 0;
}

static bool is_mended(void *arg)
{
	return report_of(arg).unmended == 0;
}

static struct kw_digests *index_of(struct stage *stage)
{
	return &stage->agent->sync.index;
}

/* Where these words stand in the table's memory. */
static uint8_t *find(struct stage *stage, const char *words)
{
	const struct kw_memory *memory = &stage->proxy.memory;
	uint8_t *found = NULL;

	for (int i = 0; i < memory->extent_count && !found; i++)
		found = memmem(memory->base + memory->extents[i].offset, memory->extents[i].length,
			words, strlen(words));
	return found;
}

/* Damage at rest: the tail has read the record long ago, and reads it no more. */
static void a_record_that_cannot_be_read_is_not_proven_equal(void **state)
{
	struct stage stage;
	uint8_t *found;

	stage_open(&stage, "commands");
	stage.options.index = true;
	stage.options.audit_keys_per_second = 1;
	stage_fill(&stage, 0, 100);
	stage_start_agent(&stage);
	test_proxy_put(&stage.proxy, 0, "damaged", "a value to be found in memory");
	stage_wait_warm(&stage);
	found = find(&stage, "a value to be found");
	assert_non_null(found);
	found[0] ^= 1;
	kw_agent_set_audit_rate(stage.agent, FAST);
	kw_digests_tell(index_of(&stage), KW_DIGESTS_WRITTEN);
	wait_round(&stage);
	assert_true(report_of(&stage).unsettled > 0);
	assert_int_equal(kw_digests_state(index_of(&stage)), KW_DIGESTS_DOUBTED);
	assert_true(report_of(&stage).proven_us == UINT64_MAX);
	found[0] ^= 1;
	wait_round(&stage);
	assert_true(report_of(&stage).proven_us < UINT64_MAX);
	assert_int_not_equal(kw_digests_state(index_of(&stage)), KW_DIGESTS_DOUBTED);
	stage_close(&stage);
}

static const struct kw_applier_ops *real;

/* In place of each change, one that changes nothing. */
static void swallow(struct kw_applier *applier, const struct kw_record_view *records, size_t count)
{
	const struct kw_record_view nothing = {
		.kind = KW_RECORD_DELETE, .key = kw_slice_text("not there")};

	for (size_t i = 0; i < count; i++)
		real->records(applier, &nothing, 1);
}

static bool is_next_round_met(void *arg)
{
	const struct stage *stage = arg;

	assert_true(report_of(stage).unmended > 0);
	return report_of(stage).rounds >= stage->seen + 2;
}

/* It differs while one round ends and the next begins. Once it is equal, no round is waited for. */
static void a_key_that_stays_different_is_known_until_it_is_equal(void **state)
{
	struct kw_applier_ops deaf;
	struct stage stage;

	stage_open_warm(&stage, KEYS);
	real = stage.agent->pair->applier->ops;
	deaf = *real;
	deaf.records = swallow;
	stage.agent->pair->applier->ops = &deaf;
	stage_cli(&stage, "set key:0 wrong");
	kw_agent_set_audit_rate(stage.agent, FAST);
	stage_wait(&stage, is_unmended, "the key is found");
	stage.seen = report_of(&stage).rounds;
	stage_wait(&stage, is_next_round_met, "two more rounds");
	stage.agent->pair->applier->ops = real;
	kw_agent_set_audit_rate(stage.agent, 1); /* a round takes a quarter of an hour */
	test_proxy_put(&stage.proxy, 0, "key:0", "right");
	stage_wait(&stage, is_mended, "the key is equal");
	assert_string_equal(stage_cli(&stage, "get key:0"), "right");
	stage_close(&stage);
}

#define TOO_MANY (KW_SUSPECTS_STAY_MAX + 50)

static bool are_all_unmended(void *arg)
{
	return report_of(arg).unmended >= TOO_MANY;
}

static bool is_next_round_met_with_all(void *arg)
{
	const struct stage *stage = arg;

	assert_true(report_of(stage).unmended >= TOO_MANY);
	return report_of(stage).rounds >= stage->seen + 2;
}

/* Those that are kept are tried again after a pause. */
static bool are_the_others_mended(void *arg)
{
	return report_of(arg).unmended <= KW_SUSPECTS_STAY_MAX;
}

/* More than can be kept: those that are not kept count until a whole round has not found them. */
static void keys_that_stay_different_are_not_forgotten_when_a_round_begins(void **state)
{
	struct kw_applier_ops deaf;
	struct stage stage;

	stage_open_warm(&stage, KEYS);
	real = stage.agent->pair->applier->ops;
	deaf = *real;
	deaf.records = swallow;
	stage.agent->pair->applier->ops = &deaf;
	for (int i = 0; i < TOO_MANY; i++) {
		char command[32];

		snprintf(command, sizeof command, "set key:%d wrong", i);
		stage_cli(&stage, command);
	}
	kw_agent_set_audit_rate(stage.agent, FAST);
	stage_wait(&stage, are_all_unmended, "all keys are found");
	wait_round(&stage);
	stage.seen = report_of(&stage).rounds;
	stage_wait(&stage, is_next_round_met_with_all, "two more rounds");
	stage.agent->pair->applier->ops = real;
	stage_wait(&stage, are_the_others_mended, "those that are not kept are equal");
	stage_close(&stage);
}

#define MANY 20000

static bool is_half_compared(void *arg)
{
	return report_of(arg).compared >= MANY / 2;
}

static bool is_cause_met(void *arg)
{
	const struct stage *stage = arg;

	return kw_audit_cause(stage->agent->audit) == KW_CAUSE_NONE;
}

static bool is_idle(void *arg)
{
	return strcmp(report_of(arg).state, "idle") == 0;
}

/* Otherwise a large table would never be compared as a whole: something interrupts each round. */
static void a_round_for_a_cause_goes_on_after_an_interruption(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, MANY);
	kw_agent_set_audit_rate(stage.agent, 1);
	assert_true(kw_audit_urge(stage.agent->audit, KW_CAUSE_CLOCK, kw_clock_us()));
	stage_wait(&stage, is_half_compared, "half of the keys are compared");
	kw_agent_pause(stage.agent, true);
	stage_wait(&stage, is_idle, "the audit is interrupted");
	kw_agent_pause(stage.agent, false);
	stage_wait(&stage, is_cause_met, "all keys are compared");
	assert_in_range(report_of(&stage).compared, MANY, MANY + MANY / 4);
	assert_true(report_of(&stage).proven_us < UINT64_MAX);
	stage_close(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_that_cannot_be_read_is_not_proven_equal),
		cmocka_unit_test(a_round_for_a_cause_goes_on_after_an_interruption),
		cmocka_unit_test(a_key_that_stays_different_is_known_until_it_is_equal),
		cmocka_unit_test(keys_that_stay_different_are_not_forgotten_when_a_round_begins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
