#include "carriers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

void right_bytes_at_every_size_and_alignment(void **state)
{
	static const uint64_t large[] = {
		4095, 4096, 4097, 65535, 65537, 131072, 1048579, EXTENT - 16};
	struct fixture fixture;
	struct client client;
	struct try t;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	for (uint64_t length = 1; length <= 130; length++)
		for (uint64_t offset = 0; offset < 9; offset++) {
			try_init(&t, offset, length);
			try_read(&client, &t);
			WAIT(&fixture, t.told);
			try_check(&t);
			try_free(&t);
		}
	for (size_t i = 0; i < sizeof large / sizeof *large; i++)
		for (uint64_t offset = 0; offset < 16; offset += 5) {
			try_init(&t, offset, large[i]);
			try_read(&client, &t);
			WAIT(&fixture, t.told);
			try_check(&t);
			try_free(&t);
		}
	client_close(&fixture, &client);
	assert_int_equal(client.why.code, KW_OK);
	fixture_close(&fixture);
}

void the_last_byte_of_the_extent_can_be_read_and_no_more(void **state)
{
	struct fixture fixture;
	struct client client;
	struct try whole, beyond;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	try_init(&whole, 0, EXTENT);
	try_init(&beyond, EXTENT - 1, 2);
	try_read(&client, &whole);
	try_read(&client, &beyond);
	WAIT(&fixture, whole.told && beyond.told);
	try_check(&whole);
	assert_true(beyond.failed);
	assert_int_equal(beyond.error.code, KW_E_ARGUMENT);
	try_free(&whole);
	try_free(&beyond);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

#define MANY 500
#define MANY_LARGE 300

void many_reads_beyond_depth_end_once_each_in_order(void **state)
{
	const struct kw_server_options served = {.depth_max = 7};
	struct kw_remote_options options = plain_options();
	struct kw_remote_read *reads[MANY];
	static struct try tries[MANY];
	struct fixture fixture;
	struct client client;
	int order = 0;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	options.depth = 32;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.ready);
	assert_int_equal(client.info.depth, 7);
	assert_int_equal(client.info.epoch, EPOCH);
	for (int i = 0; i < MANY; i++) {
		try_init(&tries[i], (uint64_t)i * 1009, 1 + (uint64_t)i * 37);
		tries[i].order = &order;
		reads[i] = &tries[i].read;
	}
	kw_remote_read(client.remote, reads, MANY);
	WAIT(&fixture, order == MANY);
	for (int i = 0; i < MANY; i++) {
		try_check(&tries[i]);
		assert_int_equal(tries[i].place, i + 1);
		try_free(&tries[i]);
	}
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

/*
 * Enough of them that a carrier which has help takes it; small ones among them, and more
 * at once than a carrier may keep books of.
 */
void many_large_reads_end_once_each_in_order(void **state)
{
	const struct kw_server_options served = {.depth_max = 100};
	struct kw_remote_options options = plain_options();
	struct kw_remote_read *reads[MANY_LARGE];
	static struct try tries[MANY_LARGE];
	struct fixture fixture;
	struct client client;
	int order = 0;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	options.depth = 100;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.ready);
	for (int i = 0; i < MANY_LARGE; i++) {
		uint64_t length = i % 7 == 3 ? 100 : (uint64_t)32768 + (uint64_t)i * 509;

		try_init(&tries[i], (uint64_t)i * 4093, length);
		tries[i].order = &order;
		reads[i] = &tries[i].read;
	}
	kw_remote_read(client.remote, reads, MANY_LARGE);
	WAIT(&fixture, order == MANY_LARGE);
	for (int i = 0; i < MANY_LARGE; i++) {
		try_check(&tries[i]);
		assert_int_equal(tries[i].place, i + 1);
		try_free(&tries[i]);
	}
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

void out_of_bounds_is_refused_before_anything_is_sent(void **state)
{
	static const struct {
		uint64_t offset, length;
	} bad[] = {{EXTENT, 1}, {0, EXTENT + 1}, {UINT64_MAX, 1}, {UINT64_MAX - 1, 4},
		{1, UINT64_MAX}, {0, 0}, {RESERVE, 1}, {EXTENT - 8, 16}, {0, KW_READ_MAX + 1}};
	struct fixture fixture;
	struct client client;
	struct kw_session_info info;
	struct try t;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		try_init(&t, 0, 1);
		t.read.offset = bad[i].offset;
		t.read.length = bad[i].length;
		try_read(&client, &t);
		WAIT(&fixture, t.told);
		assert_true(t.failed);
		assert_int_equal(t.error.code, KW_E_ARGUMENT);
		try_free(&t);
	}
	/* The connection is as good as before. */
	try_init(&t, 5, 50);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	try_check(&t);
	try_free(&t);
	WAIT(&fixture, kw_server_sessions(fixture.server, &info, 1) == 1);
	if (carrier == KW_CARRIER_TCP || carrier == KW_CARRIER_TLS) {
		WAIT(&fixture,
			kw_server_sessions(fixture.server, &info, 1) == 1 && info.reads == 1);
		assert_int_equal(info.bytes, 50);
	} else {
		assert_true(info.reads == UINT64_MAX);
	}
	assert_int_equal(fixture.left, 0);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

void before_ready_every_read_is_refused(void **state)
{
	const struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;
	struct try t;

	fixture_start(&fixture);
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	try_init(&t, 0, 10);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	assert_int_equal(t.error.code, KW_E_ARGUMENT);
	WAIT(&fixture, client.ready);
	try_free(&t);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

/* A READ started by the callback of another, as the reader does: superblock, directory, log. */
struct chain {
	struct client *client;
	struct kw_remote_read read;
	uint8_t buffer[256];
	int left, depth;
};

static void on_chain(struct kw_remote_read *read, const struct kw_error *error)
{
	struct chain *chain = read->arg;
	struct kw_remote_read *again = &chain->read;

	assert_null(error);
	assert_int_equal(chain->depth, 0);
	assert_memory_equal(chain->buffer, chain->buffer, sizeof chain->buffer);
	chain->depth++;
	if (--chain->left > 0)
		kw_remote_read(chain->client->remote, &again, 1);
	chain->depth--;
}

void a_callback_may_start_reads_and_is_never_called_from_within(void **state)
{
	struct fixture fixture;
	struct client client;
	struct chain chain = {.client = &client, .left = 3000};
	struct kw_remote_read *first = &chain.read;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	chain.read = (struct kw_remote_read){.offset = 77,
		.length = 128,
		.buffer = chain.buffer,
		.done = on_chain,
		.arg = &chain};
	kw_remote_read(client.remote, &first, 1);
	assert_int_equal(chain.left, 3000);
	WAIT(&fixture, chain.left == 0);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

void memory_that_grows_can_be_read_once_it_is_advertised(void **state)
{
	struct kw_extent extents[] = {
		{.offset = EXTENT, .length = EXTENT}, {.offset = 3 * EXTENT, .length = EXTENT}};
	struct fixture fixture;
	struct client client;
	struct kw_error error;
	struct try t, gap;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kw_memory_extend(&fixture.memory, &extents[i], &error), 0);
		fill_pattern(&fixture.memory, extents[i].offset, EXTENT);
	}
	try_init(&t, EXTENT - 100, 200);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	assert_int_equal(t.error.code, KW_E_ARGUMENT);
	try_free(&t);
	kw_remote_set_extents(client.remote, fixture.memory.extents, 3);
	try_init(&t, EXTENT - 100, 200); /* adjoining extents count as one */
	try_init(&gap, 2 * EXTENT - 1, 2);
	try_read(&client, &t);
	try_read(&client, &gap);
	WAIT(&fixture, t.told && gap.told);
	try_check(&t);
	assert_int_equal(gap.error.code, KW_E_ARGUMENT);
	try_free(&t);
	try_init(&t, 3 * EXTENT, EXTENT);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	try_check(&t);
	try_free(&t);
	try_free(&gap);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

struct writer {
	struct fixture *fixture;
	_Atomic bool stop;
};

static void *write_on(void *arg)
{
	struct writer *writer = arg;
	struct kw_memory *memory = &writer->fixture->memory;

	/* As the table does: plain stores, and growth while others read. */
	for (uint64_t round = 0; !atomic_load(&writer->stop); round++)
		memset(memory->base + EXTENT / 2, (int)(round & 0xff), EXTENT / 4);
	return NULL;
}

void a_writer_may_write_while_it_is_read(void **state)
{
	struct fixture fixture;
	struct writer writer = {.fixture = &fixture};
	struct kw_remote_read *reads[MANY_LARGE];
	static struct try many[MANY_LARGE];
	struct client client;
	pthread_t thread;
	struct try t;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
	for (int i = 0; i < 50; i++) {
		try_init(&t, EXTENT / 2 + (uint64_t)i, 100001);
		try_read(&client, &t);
		WAIT(&fixture, t.told);
		assert_false(t.failed);
		try_free(&t);
		try_init(&t, (uint64_t)i, 1000); /* what nobody writes is whole */
		try_read(&client, &t);
		WAIT(&fixture, t.told);
		try_check(&t);
		try_free(&t);
	}
	for (int i = 0; i < MANY_LARGE; i++) {
		try_init(&many[i], EXTENT / 2 + (uint64_t)i, 100001);
		reads[i] = &many[i].read;
	}
	kw_remote_read(client.remote, reads, MANY_LARGE);
	WAIT(&fixture, many[MANY_LARGE - 1].told);
	for (int i = 0; i < MANY_LARGE; i++)
		try_free(&many[i]);
	atomic_store(&writer.stop, true);
	pthread_join(thread, NULL);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

#define IN_FLIGHT 64
#define READS_IN_ALL 5000
#define TICK_MS 1
#define LATE_US 10000

/* READs that are asked for again when they end, as a gateway's are, and a timer beside them. */
struct again {
	struct client *client;
	struct kw_remote_read reads[IN_FLIGHT];
	uint8_t buffers[IN_FLIGHT][64];
	int done;
	uint64_t ticked_us; /* by the clock below */
	int ticks, late;
};

/* By this thread's own time: a busy machine makes no timer late. */
static uint64_t own_us(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void read_again(struct kw_remote_read *read, const struct kw_error *error)
{
	struct again *again = read->arg;

	assert_null(error);
	if (++again->done <= READS_IN_ALL - IN_FLIGHT)
		kw_remote_read(again->client->remote, &read, 1);
}

static void tick(uv_timer_t *timer)
{
	struct again *again = timer->data;
	uint64_t now = own_us();

	again->ticks++;
	again->late += now - again->ticked_us > LATE_US + TICK_MS * 1000;
	again->ticked_us = now;
}

/* One in ten may be late. */
void timers_fire_in_time_with_64_reads_in_flight(void **state)
{
	const struct kw_server_options served = {.depth_max = IN_FLIGHT};
	struct kw_remote_options options = plain_options();
	struct kw_remote_read *reads[IN_FLIGHT];
	static struct again again;
	struct fixture fixture;
	struct client client;
	uv_timer_t timer;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	options.depth = IN_FLIGHT;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.ready);
	again = (struct again){.client = &client, .ticked_us = own_us()};
	uv_timer_init(&fixture.loop, &timer);
	timer.data = &again;
	uv_timer_start(&timer, tick, TICK_MS, TICK_MS);
	for (int i = 0; i < IN_FLIGHT; i++) {
		reads[i] = &again.reads[i];
		*reads[i] = (struct kw_remote_read){.offset = (uint64_t)i * 64,
			.length = 64,
			.buffer = again.buffers[i],
			.done = read_again,
			.arg = &again};
	}
	kw_remote_read(client.remote, reads, IN_FLIGHT);
	WAIT(&fixture, again.done == READS_IN_ALL);
	printf("%d ticks, %d of them late\n", again.ticks, again.late);
	assert_true(again.late * 10 <= again.ticks + 10);
	uv_close((uv_handle_t *)&timer, NULL);
	client_close(&fixture, &client);
	WAIT(&fixture, fixture.left == 1);
	fixture_close(&fixture);
}
