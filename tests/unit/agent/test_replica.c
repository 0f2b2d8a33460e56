/* Mode replica as a whole: what a table may hold and the local server must never see. */
#include "base/hash.h"
#include "load/pair.h"
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* In mode replica, for which the data of before are no matter. */
static void open_replica(struct stage *stage)
{
	stage_open(stage, "replica");
	stage->options.consent = true;
}

static void put_payload(struct stage *stage, const char *key, struct kw_slice payload)
{
	kw_table_put(stage->proxy.table, 0, kw_slice_text(key), payload, 0);
}

/* A record that verifies, with a payload that does not: of a broken primary, or of its memory. */
static void put_corrupt(struct stage *stage, const char *key)
{
	uint8_t bytes[256];
	struct kw_slice payload = test_payload("damaged", bytes);

	bytes[3] ^= 1;
	put_payload(stage, key, payload);
}

/* A payload of any type and version, its CRC64 right. */
static void put_typed(struct stage *stage, const char *key, uint8_t type, uint8_t version)
{
	uint8_t bytes[256];
	struct kw_slice payload = test_payload("typed", bytes);
	uint64_t crc;

	bytes[0] = type;
	bytes[payload.length - 10] = version;
	crc = kw_crc64(0, bytes, payload.length - 8);
	memcpy(bytes + payload.length - 8, &crc, sizeof crc);
	put_payload(stage, key, payload);
}

/* A string much larger than the window. */
#define LARGE_BYTES ((size_t)6 << 20)
#define LARGE_LENGTH (LARGE_BYTES - 6 - 10) /* less type, 4 bytes of length, version, CRC64 */

static void put_large(struct stage *stage, const char *key)
{
	static uint8_t bytes[LARGE_BYTES];
	const uint8_t head[] = {0, 0x80, (uint8_t)(LARGE_LENGTH >> 24),
		(uint8_t)(LARGE_LENGTH >> 16), (uint8_t)(LARGE_LENGTH >> 8), (uint8_t)LARGE_LENGTH};
	uint64_t crc;

	memset(bytes, 'x', sizeof bytes);
	memcpy(bytes, head, sizeof head);
	bytes[LARGE_BYTES - 10] = 10;
	bytes[LARGE_BYTES - 9] = 0;
	crc = kw_crc64(0, bytes, LARGE_BYTES - 8);
	memcpy(bytes + LARGE_BYTES - 8, &crc, sizeof crc);
	put_payload(stage, key, kw_slice(bytes, LARGE_BYTES));
}

static const struct kw_link_report *link_of(struct stage *stage)
{
	return kw_pair_link(stage->agent->pair);
}

static uint64_t quarantined(const struct stage *stage)
{
	return kw_quarantine_count(&stage->agent->quarantine);
}

static void test_what_would_stop_a_server_is_kept_from_its_snapshot(void **state)
{
	struct stage stage;

	open_replica(&stage);
	stage_fill(&stage, 0, 1000);
	put_corrupt(&stage, "corrupt");
	put_typed(&stage, "of a module", 7, 10);
	put_typed(&stage, "an opcode", 254, 10);
	put_typed(&stage, "of no known type", 100, 10);
	put_typed(&stage, "too new", 0, 12);
	put_payload(&stage, "too short", kw_slice("\0x", 2));
	put_payload(&stage, "empty", kw_slice("", 0));
	stage_start_agent(&stage);
	stage_wait_applied(&stage);
	assert_int_equal(quarantined(&stage), 7);
	assert_string_equal(stage_cli(&stage, "-n 0 DBSIZE"), "500");
	assert_string_equal(stage_cli(&stage, "-n 1 DBSIZE"), "500");
	/* Never warm with keys that are wrong. */
	assert_int_not_equal(stage.agent->sm.state, KW_AGENT_WARM);
	/* Mended at the source, they leave. */
	test_proxy_put(&stage.proxy, 0, "corrupt", "whole");
	test_proxy_delete(&stage.proxy, 0, "too new");
	stage_wait_applied(&stage);
	assert_int_equal(quarantined(&stage), 5);
	assert_string_equal(stage_cli(&stage, "GET corrupt"), "whole");
	stage_close(&stage);
}

static void test_what_would_be_refused_is_kept_from_the_link(void **state)
{
	struct stage stage;

	open_replica(&stage);
	stage_fill(&stage, 0, 1000);
	stage_start_agent(&stage);
	stage_wait_applied(&stage);
	put_corrupt(&stage, "corrupt");
	put_typed(&stage, "of a module", 6, 10);
	put_typed(&stage, "too new", 0, 12);
	kw_table_put(stage.proxy.table, 77, kw_slice_text("far"), kw_slice("", 0), 0);
	kw_table_delete(stage.proxy.table, 77, kw_slice_text("far"));
	test_proxy_put(&stage.proxy, 0, "behind", "them");
	stage_wait_applied(&stage);
	assert_int_equal(quarantined(&stage), 3);
	assert_string_equal(stage_cli(&stage, "-n 0 GET behind"), "them");
	assert_string_equal(stage_cli(&stage, "-n 0 DBSIZE"), "501");
	assert_non_null(strstr(stage_cli(&stage, "INFO stats"), "unexpected_error_replies:0"));
	assert_int_equal(link_of(&stage)->full_syncs, 1);
	stage_close(&stage);
}

static bool is_reading(void *arg)
{
	const struct stage *stage = arg;

	return stage->agent->pair->reading == KW_PAIR_READS_SNAPSHOT;
}

/* The reader promises that it does not happen; a server would stop at it. */
static void test_a_key_that_comes_twice_dooms_the_snapshot(void **state)
{
	struct stage stage;
	uint8_t bytes[256];
	const struct kw_record_view twice = {
		.kind = KW_RECORD_PUT,
		.key = kw_slice_text("twice"),
		.value = test_payload("value", bytes),
		.version = 3,
	};

	open_replica(&stage);
	stage_fill(&stage, 0, 1000);
	/* So that it takes several turns of the loop. */
	for (int i = 0; i < 4; i++) {
		char key[16];

		snprintf(key, sizeof key, "large:%d", i);
		put_large(&stage, key);
	}
	test_proxy_publish(&stage.proxy);
	stage_start_agent(&stage);
	stage_wait(&stage, is_reading, "the snapshot is being read");
	kw_pair_records(stage.agent->pair, &twice, 1);
	kw_pair_records(stage.agent->pair, &twice, 1);
	stage_wait_applied(&stage);
	assert_int_equal(link_of(&stage)->full_syncs, 2);
	assert_string_equal(stage_cli(&stage, "-n 0 DBSIZE"), "504");
	assert_string_equal(stage_cli(&stage, "EXISTS twice"), "0");
	stage_close(&stage);
}

static void test_values_larger_than_the_window_arrive(void **state)
{
	struct stage stage;

	open_replica(&stage);
	put_large(&stage, "large");
	put_large(&stage, "another");
	stage_start_agent(&stage);
	stage_wait_applied(&stage);
	put_large(&stage, "later");
	stage_wait_applied(&stage);
	assert_int_equal(atoi(stage_cli(&stage, "STRLEN large")), (int)LARGE_LENGTH);
	assert_int_equal(atoi(stage_cli(&stage, "STRLEN another")), (int)LARGE_LENGTH);
	assert_int_equal(atoi(stage_cli(&stage, "STRLEN later")), (int)LARGE_LENGTH);
	assert_int_equal(quarantined(&stage), 0);
	stage_close(&stage);
}

static bool is_online_and_sent(void *arg)
{
	struct kw_pair *pair = ((struct stage *)arg)->agent->pair;

	return kw_pair_leads(pair) && !kw_feed_unsent(&pair->link->feed);
}

/* So many entries are added by a tick after a silence that is long enough for a PING. */
static uint64_t added_by_tick(struct stage *stage)
{
	struct kw_replica *replica = &stage->agent->pair->replica;
	const struct kw_feed *feed = &replica->link->feed;
	uint64_t end;

	stage_wait(stage, is_online_and_sent, "all that may be sent is sent");
	end = feed->window.end;
	kw_replica_tick(replica, replica->downlink.wrote_us + KW_REPLICA_PING_US + 1);
	return feed->window.end - end;
}

/* Each tick would add one, and none of them would be sent while a trial waits. */
static void test_no_ping_is_put_behind_a_fence(void **state)
{
	struct stage stage;
	struct kw_feed *feed;

	open_replica(&stage);
	stage_fill(&stage, 0, 100);
	stage_start_agent(&stage);
	stage_wait_applied(&stage);
	assert_int_equal(added_by_tick(&stage), 1);
	feed = &stage.agent->pair->link->feed;
	kw_feed_move_fence(feed, kw_feed_fence(feed));
	kw_downlink_wake(&stage.agent->pair->replica.downlink);
	for (int i = 0; i < 10; i++)
		assert_int_equal(added_by_tick(&stage), 0);
	kw_feed_move_fence(feed, 0);
	assert_int_equal(added_by_tick(&stage), 1);
	stage_close(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_would_stop_a_server_is_kept_from_its_snapshot),
		cmocka_unit_test(test_what_would_be_refused_is_kept_from_the_link),
		cmocka_unit_test(test_a_key_that_comes_twice_dooms_the_snapshot),
		cmocka_unit_test(test_values_larger_than_the_window_arrive),
		cmocka_unit_test(test_no_ping_is_put_behind_a_fence),
	};

	return cmocka_run_group_tests_name("agent-replica", tests, NULL, NULL);
}
