/*
 * Over a device that is software, large READs are posted by another thread
 * (remote/rdma/software.h): in order, once each, and nothing is let go of while that thread has it.
 */
#include "rdma_kit.h"

#include "fake_verbs.h"
#include "remote/rdma/software.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define LARGE 200000
#define SMALL 100
#define OUT 40
#define SLOW_US 30000

static int begin(void **state)
{
	int failed = rdma_begin(state);

	fake_verbs.software = true;
	return failed;
}

static void begin_reads(struct client *client, struct try *tries, int count, int *order)
{
	for (int i = 0; i < count; i++) {
		try_init(&tries[i], (uint64_t)i, i % 3 == 2 ? SMALL : LARGE);
		tries[i].order = order;
		try_read(client, &tries[i]);
	}
}

static void end(struct fixture *fixture, struct client *client)
{
	client_close(fixture, client);
	WAIT(fixture, fixture->left == 1);
	fixture_close(fixture);
}

static void only_large_reads_of_a_software_device_are_posted_elsewhere(void **state)
{
	static const struct {
		bool software;
		uint64_t length;
		bool elsewhere;
	} cases[] = {{true, LARGE, true}, {true, SMALL, false}, {false, LARGE, false},
		{false, SMALL, false}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fixture fixture;
		struct client client;
		struct try t;

		fake_verbs_reset();
		fake_verbs.software = cases[i].software;
		fixture_start(&fixture);
		client_connect(&fixture, &client);
		/* Where the pool's thread gets no core in time, the loop posts: asked for again. */
		do {
			try_init(&t, 1, cases[i].length);
			try_read(&client, &t);
			WAIT(&fixture, t.told);
			try_check(&t);
			try_free(&t);
		} while (cases[i].elsewhere && fake_verbs_counts.elsewhere == 0);
		end(&fixture, &client);
		assert_int_equal(fake_verbs_counts.elsewhere > 0, cases[i].elsewhere);
		assert_true(fake_verbs_counts.doorbells > 0);
	}
}

static void what_was_asked_for_first_is_told_first(void **state)
{
	static struct try tries[OUT];

	for (int busy = 0; busy < 2; busy++) {
		struct kw_remote_options options = plain_options();
		struct fixture fixture;
		struct client client;
		int order = 0;

		options.rdma.busy = busy;
		fixture_start(&fixture);
		assert_int_equal(client_open(&fixture, &client, &options), 0);
		WAIT(&fixture, client.ready);
		begin_reads(&client, tries, OUT, &order);
		WAIT(&fixture, order == OUT);
		for (int i = 0; i < OUT; i++) {
			try_check(&tries[i]);
			assert_int_equal(tries[i].place, i + 1);
			try_free(&tries[i]);
		}
		end(&fixture, &client);
	}
}

static void the_end_waits_for_the_thread(void **state)
{
	static struct try tries[OUT];

	/* Before it begins, while it posts, and while what it posted comes back. */
	for (int after_us = 0; after_us < 3 * SLOW_US; after_us += SLOW_US / 2) {
		uint64_t from_us;
		struct fixture fixture;
		struct client client;
		bool early; /* else the thread had time for all of them */
		int order = 0;

		fake_verbs.read_us = SLOW_US;
		fixture_start(&fixture);
		client_connect(&fixture, &client);
		begin_reads(&client, tries, OUT, &order);
		from_us = kw_clock_us();
		WAIT(&fixture, kw_clock_us() - from_us >= (uint64_t)after_us);
		early = kw_clock_us() - from_us < OUT / 2 * SLOW_US;
		client_close(&fixture, &client);
		for (int i = 0; i < OUT; i++) {
			assert_int_equal(tries[i].told, 1);
			if (!tries[i].failed)
				try_check(&tries[i]);
			try_free(&tries[i]);
		}
		assert_true(tries[OUT - 1].failed || !early);
		WAIT(&fixture, fixture.left == 1);
		fixture_close(&fixture);
		assert_int_equal(fake_verbs_left(), 0);
	}
}

/* The connection ends, by what the thread meets or by what the loop hears. */
static void expect_end(int after_us, const char *text)
{
	static struct try tries[OUT];
	struct fixture fixture;
	struct client client;
	int order = 0;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	begin_reads(&client, tries, OUT, &order);
	if (after_us) {
		uint64_t from_us = kw_clock_us();

		WAIT(&fixture, kw_clock_us() - from_us >= (uint64_t)after_us);
		fake_verbs_tell(true, RDMA_CM_EVENT_DISCONNECTED, 0);
	}
	WAIT(&fixture, client.closed);
	assert_non_null(strstr(client.why.text, text));
	for (int i = 0; i < OUT; i++) {
		assert_int_equal(tries[i].told, 1);
		try_free(&tries[i]);
	}
	kw_remote_free(client.remote);
	WAIT(&fixture, fixture.left == 1);
	fake_verbs.fail_call = NULL;
	fixture_close(&fixture);
}

static void a_posting_that_fails_there_ends_the_connection(void **state)
{
	for (int skip = 0; skip < 4; skip++) {
		fake_verbs.fail_call = "ibv_post_send";
		fake_verbs.fail_errno = ENOMEM;
		fake_verbs.fail_skip = skip;
		expect_end(0, "READ cannot be posted");
	}
}

static void a_bad_completion_of_what_it_posted_ends_the_connection(void **state)
{
	for (int after = 1; after < 60; after += 7) {
		fake_verbs.fail_status = IBV_WC_RETRY_EXC_ERR;
		fake_verbs.fail_read_after = after;
		fake_verbs.read_us = after % 2 ? SLOW_US : 0;
		expect_end(0, "READ");
	}
}

static void a_farewell_while_it_posts_ends_the_connection(void **state)
{
	fake_verbs.read_us = SLOW_US;
	expect_end(SLOW_US / 2, "closed the connection");
}

/* ---- the pool has one thread here, and others need it too ---- */

static uv_sem_t occupied, let_go;

static void occupy(uv_work_t *work)
{
	(void)work;
	uv_sem_post(&occupied);
	uv_sem_wait(&let_go);
}

static void on_free(uv_work_t *work, int status)
{
	assert_int_equal(status, 0);
	*(bool *)work->data = true;
}

static void a_busy_pool_holds_nothing_up(void **state)
{
	static struct try tries[OUT];
	struct kw_remote_options options = plain_options();
	bool free_again = false;
	uv_work_t work = {.data = &free_again};
	struct fixture fixture;
	struct client client;
	int order = 0;

	options.read_timeout_ms = 5000;
	uv_sem_init(&occupied, 0);
	uv_sem_init(&let_go, 0);
	fixture_start(&fixture);
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.ready);
	uv_queue_work(&fixture.loop, &work, occupy, on_free);
	uv_sem_wait(&occupied);
	begin_reads(&client, tries, OUT, &order);
	WAIT(&fixture, order == OUT);
	assert_false(free_again);
	assert_int_equal(fake_verbs_counts.elsewhere, 0);
	uv_sem_post(&let_go);
	WAIT(&fixture, free_again);
	for (int i = 0; i < OUT; i++) {
		try_check(&tries[i]);
		assert_int_equal(tries[i].place, i + 1);
		try_free(&tries[i]);
	}
	end(&fixture, &client);
	uv_sem_destroy(&occupied);
	uv_sem_destroy(&let_go);
}

static void pass(uv_work_t *work)
{
	(void)work;
}

#define MANY 100 /* more rounds than the thread makes at a stretch */
#define FEW 20   /* less */

static uv_sem_t go_on;
static atomic_int posting;
static pthread_t home;

static void hold_thread(void)
{
	if (pthread_equal(pthread_self(), home))
		return;
	atomic_fetch_add(&posting, 1);
	uv_sem_wait(&go_on);
}

/* While the thread is at one posting the next comes: it always finds more. */
static void what_never_ends_lets_others_into_the_pool(void **state)
{
	static struct try tries[MANY];
	bool passed = false;
	uv_work_t work = {.data = &passed};
	struct fixture fixture;
	struct client client;

	home = pthread_self();
	uv_sem_init(&go_on, 0);
	fixture_start(&fixture);
	client_connect(&fixture, &client);
	fake_verbs.posting = hold_thread;
	for (int i = 0; i < MANY; i++) {
		int held = atomic_load(&posting);

		try_init(&tries[i], (uint64_t)i, KW_RDMA_SMALL_POST_BYTES);
		try_read(&client, &tries[i]);
		if (i > 0)
			uv_sem_post(&go_on);
		else
			uv_queue_work(&fixture.loop, &work, pass, on_free);
		WAIT(&fixture, atomic_load(&posting) > held || tries[i].told);
		if (i > 0)
			WAIT(&fixture, tries[i - 1].told);
		if (i == FEW && fake_verbs_counts.elsewhere >= FEW)
			assert_false(passed);
	}
	WAIT(&fixture, passed);
	fake_verbs.posting = NULL;
	uv_sem_post(&go_on);
	WAIT(&fixture, tries[MANY - 1].told);
	for (int i = 0; i < MANY; i++) {
		try_check(&tries[i]);
		try_free(&tries[i]);
	}
	end(&fixture, &client);
	uv_sem_destroy(&go_on);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, begin, rdma_nothing_left)
	const struct CMUnitTest tests[] = {
		T(only_large_reads_of_a_software_device_are_posted_elsewhere),
		T(what_was_asked_for_first_is_told_first),
		T(the_end_waits_for_the_thread),
		T(a_posting_that_fails_there_ends_the_connection),
		T(a_bad_completion_of_what_it_posted_ends_the_connection),
		T(a_farewell_while_it_posts_ends_the_connection),
		T(a_busy_pool_holds_nothing_up),
		T(what_never_ends_lets_others_into_the_pool),
	};

	setenv("UV_THREADPOOL_SIZE", "1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
