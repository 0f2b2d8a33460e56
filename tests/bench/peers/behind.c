#include "behind.h"

#include "words.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAP_US 50
#define PATIENCE_US 30000000

uint64_t behind_now_us(void)
{
	return (uint64_t)(peer_now() * 1e6);
}

static void sleep_until(uint64_t us)
{
	struct timespec at = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

void behind_begin(struct behind *behind, const char *primary, int argc, char **argv)
{
	struct sched_param priority = {.sched_priority = 1};

	*behind = (struct behind){
		.interval_us = (uint64_t)words_number(argc, argv, "--interval-us", 10000)};
	snprintf(behind->key, sizeof behind->key, "behind:%d", (int)getpid());
	if (behind->interval_us == 0)
		peer_die("--interval-us: at least 1");
	peer_connect(&behind->primary, primary);
	behind->realtime = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
	behind->due_us = behind_now_us();
	behind->end_us =
		behind->due_us + (uint64_t)(words_number(argc, argv, "--seconds", 5) * 1e6);
}

void behind_end(struct behind *behind)
{
	peer_close(&behind->primary);
}

uint64_t behind_write(struct behind *behind, char value[BEHIND_VALUE])
{
	uint64_t now_us = behind_now_us();
	long long number;

	behind->due_us += behind->interval_us;
	if (behind->due_us < now_us)
		behind->due_us = now_us;
	if (behind->due_us >= behind->end_us)
		return 0;
	sleep_until(behind->due_us);
	snprintf(value, BEHIND_VALUE, "value %" PRIu64, ++behind->number);
	peer_array(&behind->primary, 3);
	peer_bulk(&behind->primary, "SET", 3);
	peer_bulk(&behind->primary, behind->key, strlen(behind->key));
	peer_bulk(&behind->primary, value, strlen(value));
	peer_flush(&behind->primary);
	if (peer_header(&behind->primary, &number) != '+')
		peer_die("the primary did not take a SET");
	return behind_now_us();
}

void behind_nap(const struct behind *behind, uint64_t written_us)
{
	uint64_t now_us = behind_now_us();

	if (now_us - written_us > PATIENCE_US)
		peer_die("value %" PRIu64 " did not come within %d s", behind->number,
			PATIENCE_US / 1000000);
	sleep_until(now_us + NAP_US);
}

void behind_print(const struct behind *behind, const struct histogram *histogram)
{
	printf("{\"realtime\":%s,", behind->realtime ? "true" : "false");
	histogram_print(histogram);
	printf("}\n");
}
