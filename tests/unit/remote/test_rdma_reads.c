/* The read path over rdma, its options, and the memory it locks. */
#include "rdma_kit.h"

#include "fake_verbs.h"
#include "rdma_raw.h"
#include "remote/rdma/counts.h"
#include "remote/rdma/end.h"
#include "remote/rdma/software.h"

#include <string.h>

static void few_doorbells_and_few_signals(void **state)
{
	struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;
	struct try t;

	fixture_start(&fixture);
	options.rdma.read_bytes = 4096;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.ready);
	try_init(&t, 3, 256 * 4096);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	try_check(&t);
	assert_int_equal(fake_verbs_counts.reads, 256);
	assert_true(fake_verbs_counts.doorbells <= 256 / 8 + 1);
	assert_true(fake_verbs_counts.signalled <= 256 / 8 + 2);
	try_free(&t);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

/* Two small READs started by one call: one doorbell, one completion. */
static void two_small_reads_are_one_posting(void **state)
{
	struct fixture fixture;
	struct client client;
	struct try tries[2];
	struct kw_remote_read *reads[2];

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	memset(&fake_verbs_counts, 0, sizeof fake_verbs_counts);
	for (int i = 0; i < 2; i++) {
		try_init(&tries[i], (uint64_t)i * 999, i ? 4096 : 128);
		reads[i] = &tries[i].read;
	}
	kw_remote_read(client.remote, reads, 2);
	WAIT(&fixture, tries[1].told);
	assert_int_equal(fake_verbs_counts.reads, 2);
	assert_int_equal(fake_verbs_counts.doorbells, 1);
	assert_int_equal(fake_verbs_counts.signalled, 1);
	for (int i = 0; i < 2; i++) {
		try_check(&tries[i]);
		try_free(&tries[i]);
	}
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

/* A device that lies: of the n-th good completion of one opcode it tells something else. */
static struct {
	enum ibv_wc_opcode of;
	uint64_t id; /* added */
	enum ibv_wc_opcode opcode;
	uint32_t bytes;
	int told;
} lie;

static void tell_lie(struct ibv_wc *wc)
{
	if (wc->opcode != lie.of || lie.told++ > 0)
		return;
	wc->wr_id += lie.id;
	wc->opcode = lie.opcode;
	wc->byte_len = lie.bytes;
}

static void a_completion_that_nothing_asked_for_ends_the_connection(void **state)
{
	static const struct {
		enum ibv_wc_opcode of;
		uint64_t id;
		enum ibv_wc_opcode opcode;
		uint32_t bytes;
	} cases[] = {
		{IBV_WC_RDMA_READ, 0, IBV_WC_RDMA_READ, 4095},
		{IBV_WC_RDMA_READ, 0, IBV_WC_RDMA_READ, 0},
		{IBV_WC_RDMA_READ, 0, IBV_WC_SEND, 4096}, {IBV_WC_RDMA_READ, 0, IBV_WC_RECV, 4096},
		{IBV_WC_RDMA_READ, 1, IBV_WC_RDMA_READ, 4096}, /* not asked for yet */
		{IBV_WC_RDMA_READ, UINT64_C(1) << 56, IBV_WC_RDMA_READ, 4096}, /* no kind */
		{IBV_WC_RDMA_READ, (uint64_t)-1 << 56, IBV_WC_SEND, 4096},     /* a SEND */
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint64_t counted = kw_rdma_counted(KW_RDMA_STRANGE);
		struct fixture fixture;
		struct client client;
		struct try t;

		fixture_start(&fixture);
		client_connect(&fixture, &client);
		lie.of = cases[i].of;
		lie.id = cases[i].id;
		lie.opcode = cases[i].opcode;
		lie.bytes = cases[i].bytes;
		lie.told = 0;
		fake_verbs.lie = tell_lie;
		try_init(&t, 0, 4096);
		try_read(&client, &t);
		WAIT(&fixture, client.closed);
		expect_text(client.why.text, "not asked for");
		assert_true(t.told);
		assert_int_equal(kw_rdma_counted(KW_RDMA_STRANGE), counted + 1);
		fake_verbs.lie = NULL;
		kw_remote_free(client.remote);
		try_free(&t);
		fixture_close(&fixture);
	}
}

/* Among them what a peer can do itself: a write of no bytes that completes a receive. */
static void a_message_without_bytes_is_none(void **state)
{
	static const struct {
		uint64_t id;
		enum ibv_wc_opcode opcode;
		uint32_t bytes;
	} cases[] = {
		{0, IBV_WC_RECV_RDMA_WITH_IMM, 16},
		{0, IBV_WC_RECV, 0},
		{0, IBV_WC_RECV, KW_RDMA_MESSAGE_MAX + 1},
		{0, IBV_WC_RECV, UINT32_MAX},
		{KW_RDMA_RECEIVES, IBV_WC_RECV, 16},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fixture fixture;
		struct client client;
		struct kw_error error;
		struct raw raw;

		fixture_start(&fixture);
		client_connect(&fixture, &client);
		assert_int_equal(raw_greet(&fixture, &raw, KW_LAYOUT_VERSION), 0);
		WAIT(&fixture, fixture.joined == 2);
		lie.of = IBV_WC_RECV;
		lie.id = cases[i].id;
		lie.opcode = cases[i].opcode;
		lie.bytes = cases[i].bytes;
		lie.told = 0;
		fake_verbs.lie = tell_lie;
		assert_int_equal(kw_rdma_end_send(&raw.end, "0123456789abcdef", 16, &error), 0);
		WAIT(&fixture, fixture.left == 1);
		expect_text(fixture.why_left, "not asked for");
		fake_verbs.lie = NULL;
		raw_close(&raw);
		client_close(&fixture, &client);
		fixture_close(&fixture);
	}
}

#define IN_FLIGHT 64
#define READS_IN_ALL 10000

/* READs that are asked for again when they end, as lookups are; and what each turn of the loop did.
 */
struct again {
	struct fixture fixture;
	struct client client;
	struct kw_remote_read reads[IN_FLIGHT];
	uint8_t buffers[IN_FLIGHT][64];
	int done;
	int turns;
	struct fake_verbs_counts before; /* this turn */
	int most_doorbells, most_reads;  /* by the loop's thread, in one turn */
};

static void read_again(struct kw_remote_read *read, const struct kw_error *error)
{
	struct again *again = read->arg;

	assert_null(error);
	if (++again->done <= READS_IN_ALL - IN_FLIGHT)
		kw_remote_read(again->client.remote, &read, 1);
}

static void count_turn(uv_check_t *check)
{
	const struct fake_verbs_counts *now = &fake_verbs_counts;
	struct again *again = check->data;
	int doorbells = now->doorbells - again->before.doorbells;
	int reads = now->reads - again->before.reads -
		    (now->reads_elsewhere - again->before.reads_elsewhere);

	again->turns++;
	if (doorbells > again->most_doorbells)
		again->most_doorbells = doorbells;
	if (reads > again->most_reads)
		again->most_reads = reads;
	again->before = *now;
}

static void read_again_and_again(struct again *again)
{
	const struct kw_server_options served = {.depth_max = IN_FLIGHT};
	struct kw_remote_options options = plain_options();
	struct kw_remote_read *reads[IN_FLIGHT];
	uv_check_t check;

	fixture_open(&again->fixture);
	fixture_serve(&again->fixture, &served);
	options.depth = IN_FLIGHT;
	assert_int_equal(client_open(&again->fixture, &again->client, &options), 0);
	WAIT(&again->fixture, again->client.ready);
	for (int i = 0; i < IN_FLIGHT; i++) {
		reads[i] = &again->reads[i];
		*reads[i] = (struct kw_remote_read){.offset = (uint64_t)i * 64,
			.length = 64,
			.buffer = again->buffers[i],
			.done = read_again,
			.arg = again};
	}
	kw_remote_read(again->client.remote, reads, IN_FLIGHT);
	uv_check_init(&again->fixture.loop, &check);
	check.data = again;
	again->before = fake_verbs_counts;
	uv_check_start(&check, count_turn);
	WAIT(&again->fixture, again->done == READS_IN_ALL);
	uv_close((uv_handle_t *)&check, NULL);
	client_close(&again->fixture, &again->client);
	WAIT(&again->fixture, again->fixture.left == 1);
	fixture_close(&again->fixture);
}

/* READs that complete at once, and whose owner asks again: timers and others get their turn. */
static void who_reads_again_and_again_does_not_hold_up_the_loop(void **state)
{
	static struct again again;

	fake_verbs.depth = IN_FLIGHT;
	read_again_and_again(&again);
	/* A turn polls twice at most: for the event, and for what was left over. */
	assert_true(again.turns >= READS_IN_ALL / (2 * KW_RDMA_POLL_MAX + IN_FLIGHT));
	assert_true(again.most_doorbells <= 2);
}

/*
 * A software device does the work of a READ within the posting of it, 0.2 ms each: 64 would hold up
 * the loop for 14 ms.
 */
static void the_loop_posts_few_reads_a_turn_to_a_software_device(void **state)
{
	static struct again again;

	fake_verbs.depth = IN_FLIGHT;
	fake_verbs.software = true;
	read_again_and_again(&again);
	assert_true(again.most_reads <= 2 * KW_RDMA_SMALL_POST_READS);
	assert_true(fake_verbs_counts.reads_elsewhere > 0);
}

static void reads_of_everything_by(const struct kw_remote_options *options)
{
	struct fixture fixture;
	struct client client;
	struct try t;

	fixture_start(&fixture);
	assert_int_equal(client_open(&fixture, &client, options), 0);
	WAIT(&fixture, client.ready);
	try_init(&t, 0, EXTENT);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	try_check(&t);
	try_free(&t);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

static void devices_and_options_of_all_kinds_do(void **state)
{
	struct kw_remote_options options = plain_options();

	fake_verbs.iwarp = true;
	reads_of_everything_by(&options);
	fake_verbs.iwarp = false;
	fake_verbs.software = true;
	reads_of_everything_by(&options);
	fake_verbs.depth = 1;
	reads_of_everything_by(&options);
	fake_verbs.software = false;
	reads_of_everything_by(&options);
	fake_verbs.depth = 300;
	options.depth = 1000;
	reads_of_everything_by(&options);
	options.depth = 3;
	reads_of_everything_by(&options);
	fake_verbs.depth = 16;
	options.rdma.busy = true;
	options.rdma.traffic_class = 96;
	strcpy(options.rdma.device, "fake0");
	options.rdma.port = 1;
	options.rdma.read_bytes = 1 << 20;
	reads_of_everything_by(&options);
}

static void senseless_options_are_refused(void **state)
{
	static const struct {
		struct kw_rdma_options rdma;
		const char *text;
	} cases[] = {
		{{.retry_count = 7}, "for ever"},
		{{.ack_timeout = 32}, "ack timeout"},
		{{.read_bytes = 17}, "READs of 17 bytes"},
	};
	struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		options.rdma = cases[i].rdma;
		assert_int_equal(client_open(&fixture, &client, &options), KW_E_CONFIG);
		expect_text(client.why.text, cases[i].text);
	}
	options.rdma = (struct kw_rdma_options){.device = "mlx5_9"};
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	expect_closed(&fixture, &client, KW_E_CONFIG, "mlx5_9 is configured");
	options.rdma = (struct kw_rdma_options){.port = 2};
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	expect_closed(&fixture, &client, KW_E_CONFIG, "port 1 of RDMA device fake0");
	fixture_close(&fixture);
}

static void locked_memory_is_counted_before_it_is_asked_for(void **state)
{
	struct kw_error error;

	assert_int_equal(kw_rdma_memlock_check(1 << 30, 1 << 20, UINT64_MAX, &error), 0);
	assert_int_equal(kw_rdma_memlock_check(100, 900, 1000, &error), 0);
	assert_int_equal(kw_rdma_memlock_check(101, 900, 1000, &error), KW_E_CONFIG);
	expect_text(error.text, "needs 1001 bytes");
	expect_text(error.text, "1000 are allowed");
	expect_text(error.text, "LimitMEMLOCK=infinity");
	assert_int_equal(kw_rdma_memlock_check(1, 2000, 1000, &error), KW_E_CONFIG);
	assert_int_equal(kw_rdma_memlock_check(UINT64_MAX - 1, 5, 1000, &error), KW_E_CONFIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RDMA_TEST(a_completion_that_nothing_asked_for_ends_the_connection),
		RDMA_TEST(a_message_without_bytes_is_none),
		RDMA_TEST(few_doorbells_and_few_signals),
		RDMA_TEST(two_small_reads_are_one_posting),
		RDMA_TEST(who_reads_again_and_again_does_not_hold_up_the_loop),
		RDMA_TEST(the_loop_posts_few_reads_a_turn_to_a_software_device),
		RDMA_TEST(devices_and_options_of_all_kinds_do),
		RDMA_TEST(senseless_options_are_refused),
		RDMA_TEST(locked_memory_is_counted_before_it_is_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
