/*
 * copier.h: what the loop and its helper do with copies, and what becomes of them at the end. Where
 * the helper is to be found in the midst of a copy, its source is a page that cannot be read yet.
 */
#include "fixture.h"

#include "remote/shm/copier.h"

#include <signal.h>
#include <sys/mman.h>

#define READS 16
#define LENGTH ((uint64_t)256 << 10)
#define POOL 4 /* threads of libuv's pool, as it is by default */

struct bench {
	struct fixture fixture;
	struct client client;
	struct kw_copier copier;
	struct kw_remote_read reads[READS];
	uint8_t *sinks;
};

/* ---- a page that holds up whoever reads it ---- */

static struct {
	uint8_t *page;
	_Atomic int reached;
} gate;

/* Back at the instruction it faults again, until the page can be read. */
static void on_fault(int number, siginfo_t *info, void *context)
{
	const struct timespec pause = {.tv_nsec = 100000};

	(void)context;
	if ((uintptr_t)info->si_addr - (uintptr_t)gate.page >= 4096) {
		signal(number, SIG_DFL);
		return;
	}
	atomic_store(&gate.reached, 1);
	nanosleep(&pause, NULL);
}

static void gate_shut(uint8_t *page)
{
	const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	gate.page = page;
	atomic_store(&gate.reached, 0);
	assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
	assert_int_equal(mprotect(page, 4096, PROT_NONE), 0);
}

static void gate_open(void)
{
	assert_int_equal(mprotect(gate.page, 4096, PROT_READ | PROT_WRITE), 0);
}

/* ---- READs ---- */

static void open_bench(struct bench *bench)
{
	fixture_start(&bench->fixture);
	client_connect(&bench->fixture, &bench->client);
	bench->copier = (struct kw_copier){0};
	kw_copier_init(&bench->copier, bench->client.remote);
	bench->sinks = calloc(READS, LENGTH);
	assert_non_null(bench->sinks);
	for (uint64_t i = 0; i < READS; i++)
		bench->reads[i] = (struct kw_remote_read){
			.offset = i * LENGTH,
			.length = LENGTH,
			.buffer = bench->sinks + i * LENGTH,
		};
}

static const uint8_t *source(const struct bench *bench, int i)
{
	return bench->fixture.memory.base + bench->reads[i].offset;
}

static void add(struct bench *bench, int first, int count)
{
	for (int i = first; i < first + count; i++)
		assert_true(kw_copier_add(&bench->copier, &bench->reads[i], source(bench, i)));
	kw_copier_added(&bench->copier);
}

static bool has_bytes(const struct bench *bench, int i)
{
	return memcmp(bench->reads[i].buffer, source(bench, i), LENGTH) == 0;
}

/* All of them have their bytes and are told in order, without the loop copying any. */
static void tell(struct bench *bench, int first, int count)
{
	for (int i = first; i < first + count; i++) {
		assert_true(kw_copier_is_due(&bench->copier, &bench->reads[i]));
		assert_int_equal(kw_copier_step(&bench->copier), KW_COPIER_DONE);
		assert_false(kw_copier_is_due(&bench->copier, &bench->reads[i]));
		assert_true(has_bytes(bench, i));
	}
}

static void close_bench(struct bench *bench)
{
	if (!bench->client.closed)
		kw_remote_close(bench->client.remote);
	WAIT(&bench->fixture, bench->client.closed);
	kw_remote_free(bench->client.remote);
	fixture_close(&bench->fixture);
	free(bench->sinks);
}

/* ---- tests ---- */

static void the_helper_copies_what_is_not_due_yet(void **state)
{
	struct bench bench;

	open_bench(&bench);
	kw_copier_want_help(&bench.copier, true);
	add(&bench, 0, READS);
	assert_true(bench.copier.helping);
	/* The loop asks for nothing: it is the other thread that takes them all. */
	WAIT(&bench.fixture, !bench.copier.helping);
	assert_int_equal(atomic_load(&bench.copier.taken), READS);
	tell(&bench, 0, READS);
	assert_true(kw_copier_close(&bench.copier, NULL));
	close_bench(&bench);
}

static void no_thread_is_woken_for_few_or_where_none_is_wanted(void **state)
{
	struct bench bench;

	open_bench(&bench);
	add(&bench, 0, READS);
	assert_false(bench.copier.helping);
	tell(&bench, 0, READS);
	kw_copier_want_help(&bench.copier, true);
	add(&bench, 0, 1);
	assert_false(bench.copier.helping);
	tell(&bench, 0, 1);
	assert_true(kw_copier_close(&bench.copier, NULL));
	close_bench(&bench);
}

static void other_sizes_and_more_than_there_is_place_for_are_the_owners(void **state)
{
	struct kw_remote_read read = {.length = KW_COPIER_BYTES_MIN - 1};
	struct bench bench;

	open_bench(&bench);
	assert_false(kw_copier_add(&bench.copier, &read, source(&bench, 0)));
	read.length = KW_COPIER_BYTES_MAX + 1;
	assert_false(kw_copier_add(&bench.copier, &read, source(&bench, 0)));
	for (int i = 0; i < KW_COPIER_JOBS; i++)
		assert_true(
			kw_copier_add(&bench.copier, &bench.reads[i % READS], source(&bench, 0)));
	assert_false(kw_copier_add(&bench.copier, &bench.reads[0], source(&bench, 0)));
	assert_int_equal(kw_copier_step(&bench.copier), KW_COPIER_DONE);
	assert_true(kw_copier_add(&bench.copier, &bench.reads[0], source(&bench, 0)));
	assert_false(kw_copier_add(&bench.copier, &bench.reads[0], source(&bench, 0)));
	assert_true(kw_copier_close(&bench.copier, NULL));
	close_bench(&bench);
}

static int let_go;

static void on_let_go(struct kw_remote *remote)
{
	(void)remote;
	let_go++;
}

static _Atomic int occupied, vacated;

static void occupy(uv_work_t *work)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	(void)work;
	atomic_fetch_add(&occupied, 1);
	while (!atomic_load(&vacated))
		nanosleep(&pause, NULL);
}

static void on_occupied(uv_work_t *work, int status)
{
	(void)work;
	(void)status;
}

static void with_every_thread_of_the_pool_taken_the_loop_copies_all(void **state)
{
	uv_work_t works[POOL];
	struct bench bench;

	open_bench(&bench);
	for (int i = 0; i < POOL; i++)
		assert_int_equal(
			uv_queue_work(&bench.fixture.loop, &works[i], occupy, on_occupied), 0);
	WAIT(&bench.fixture, atomic_load(&occupied) == POOL);
	kw_copier_want_help(&bench.copier, true);
	add(&bench, 0, READS);
	tell(&bench, 0, READS);
	assert_true(bench.copier.helping);
	/* Nor is the end waited for: what no thread has begun is cancelled. */
	let_go = 0;
	assert_false(kw_copier_close(&bench.copier, on_let_go));
	kw_remote_close(bench.client.remote);
	WAIT(&bench.fixture, bench.client.closed);
	assert_int_equal(let_go, 1);
	atomic_store(&vacated, 1);
	close_bench(&bench);
}

static void only_the_oldest_in_the_helpers_hands_is_waited_for(void **state)
{
	struct bench bench;

	open_bench(&bench);
	gate_shut(bench.fixture.memory.base);
	kw_copier_want_help(&bench.copier, true);
	add(&bench, 0, READS);
	WAIT(&bench.fixture, atomic_load(&gate.reached));
	for (int i = 1; i < READS; i++) {
		assert_int_equal(kw_copier_step(&bench.copier), KW_COPIER_MORE);
		assert_true(has_bytes(&bench, i));
	}
	assert_int_equal(kw_copier_step(&bench.copier), KW_COPIER_WAIT);
	assert_false(kw_copier_left(&bench.copier));
	gate_open();
	WAIT(&bench.fixture, !bench.copier.helping);
	tell(&bench, 0, READS);
	assert_true(kw_copier_close(&bench.copier, NULL));
	close_bench(&bench);
}

static void the_end_holds_memory_until_the_helper_has_let_go(void **state)
{
	struct bench bench;

	let_go = 0;
	open_bench(&bench);
	gate_shut(bench.fixture.memory.base);
	kw_copier_want_help(&bench.copier, true);
	add(&bench, 0, READS);
	WAIT(&bench.fixture, atomic_load(&gate.reached));
	assert_false(kw_copier_close(&bench.copier, on_let_go));
	kw_remote_close(bench.client.remote);
	for (int i = 0; i < 20; i++)
		uv_run(&bench.fixture.loop, UV_RUN_ONCE);
	assert_int_equal(let_go, 0);
	assert_int_equal(bench.client.closed, 0);
	gate_open();
	WAIT(&bench.fixture, bench.client.closed);
	assert_int_equal(let_go, 1);
	/* It began no other copy, and did not even end its own. */
	assert_int_equal(atomic_load(&bench.copier.taken), 1);
	assert_false(has_bytes(&bench, 0));
	close_bench(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_helper_copies_what_is_not_due_yet),
		cmocka_unit_test(no_thread_is_woken_for_few_or_where_none_is_wanted),
		cmocka_unit_test(other_sizes_and_more_than_there_is_place_for_are_the_owners),
		cmocka_unit_test(with_every_thread_of_the_pool_taken_the_loop_copies_all),
		cmocka_unit_test(only_the_oldest_in_the_helpers_hands_is_waited_for),
		cmocka_unit_test(the_end_holds_memory_until_the_helper_has_let_go),
	};

	/* Before the pool's first use, whatever the environment says. */
	setenv("UV_THREADPOOL_SIZE", "4", 1);
	carrier = KW_CARRIER_SHM;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
