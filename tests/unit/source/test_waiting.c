/*
 * Waiting for a core, against the kernel's own numbers: of this process, which plays the server,
 * and of one that is not it.
 */
#include "fetch/waiting.h"

#include "base/clock.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WORK_US 30000

static uint64_t cpu_us(void)
{
	struct rusage used;

	assert_int_equal(getrusage(RUSAGE_THREAD, &used), 0);
	return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void work(uint64_t us)
{
	uint64_t until_us = cpu_us() + us;

	while (cpu_us() < until_us)
		;
}

static struct kw_waiting_server ourselves(bool near)
{
	return (struct kw_waiting_server){
		.process = (uint64_t)getpid(), .near = near, .cpu_us = cpu_us(), .age_us = 1000};
}

static void the_kernel_tells_of_threads(void **state)
{
	struct kw_thread_time own, its;

	assert_true(kw_thread_time_own(&own));
	assert_true(kw_thread_time_of((uint64_t)getpid(), &its));
	assert_true(its.run_us >= own.run_us && its.run_us < own.run_us + 1000000);
	assert_true(its.wait_us >= own.wait_us);
	assert_false(kw_thread_time_of(UINT32_MAX, &its));
	assert_false(kw_thread_time_of(0, &its));
}

static pid_t spin_on(const cpu_set_t *core)
{
	pid_t child = fork();

	if (child == 0) {
		sched_setaffinity(0, sizeof *core, core);
		for (;;)
			;
	}
	return child;
}

/* On one core, two that work wait for each other half of the time. */
static void the_server_s_own_waiting_counts(void **state)
{
	struct kw_waiting waiting = {0};
	struct kw_waiting_server server = ourselves(false);
	cpu_set_t before, core;
	pid_t child;

	assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
	CPU_ZERO(&core);
	CPU_SET(sched_getcpu(), &core);
	child = spin_on(&core);
	assert_int_equal(kw_waiting_look(&waiting, &server), 0);
	assert_int_equal(sched_setaffinity(0, sizeof core, &core), 0);
	work(2 * WORK_US);
	server = ourselves(false);
	kw_waiting_look(&waiting, &server);
	sched_setaffinity(0, sizeof before, &before);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true(waiting.its_known);
	assert_true(waiting.wait_us >= WORK_US / 2);
}

/* The id is somebody's of this host, but the server's of another: its CPU time is another. */
static void a_stranger_with_the_server_s_id_is_found_out(void **state)
{
	struct kw_waiting waiting = {0};
	struct kw_waiting_server server;
	pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	server = (struct kw_waiting_server){.process = (uint64_t)child, .cpu_us = 5000000};
	kw_waiting_look(&waiting, &server);
	assert_false(waiting.its_known);
	server.cpu_us = 0;
	kw_waiting_look(&waiting, &server);
	assert_true(waiting.its_known);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	kw_waiting_look(&waiting, &server);
	assert_false(waiting.its_known);
	assert_int_equal(waiting.wait_us, 0);
}

/* A server that ran as long as we did is reckoned to have waited as long. */
static void a_near_server_waits_as_we_do(void **state)
{
	struct kw_waiting waiting = {0};
	struct kw_waiting_server server = {.near = true, .cpu_us = 7000000};

	waiting.wait_us = 5;
	kw_waiting_look(&waiting, &server);
	assert_int_equal(waiting.wait_us, 5);
	work(WORK_US);
	waiting.own.wait_us = 0; /* as if all the waiting of this process fell into this look */
	waiting.own.run_us = 0;
	server.cpu_us += waiting.own.run_us + WORK_US;
	kw_waiting_look(&waiting, &server);
	assert_true(
		waiting.wait_us >= 5 + waiting.own.wait_us * WORK_US / (waiting.own.run_us + 1));
}

static void of_a_server_elsewhere_nothing_is_known(void **state)
{
	struct kw_waiting waiting = {0};
	struct kw_waiting_server server = {.cpu_us = 7000000};

	for (int i = 0; i < 3; i++) {
		work(1000);
		server.cpu_us += 1000000;
		assert_int_equal(kw_waiting_look(&waiting, &server), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_tells_of_threads),
		cmocka_unit_test(the_server_s_own_waiting_counts),
		cmocka_unit_test(a_stranger_with_the_server_s_id_is_found_out),
		cmocka_unit_test(a_near_server_waits_as_we_do),
		cmocka_unit_test(of_a_server_elsewhere_nothing_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
