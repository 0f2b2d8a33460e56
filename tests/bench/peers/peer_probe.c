/*
 * peer-probe ADDRESS [--seconds N] [--interval-us N]: how long does the server let one GET wait?
 *
 * One GET each interval (1000 us), timed from the moment it was due, so a stall counts for every
 * GET that it held up. Runs for N seconds, or until standard input closes. Asks for realtime
 * scheduling: on a busy machine it would measure its own waiting otherwise; the result says whether
 * it was granted.
 */
#include "histogram.h"
#include "peer.h"
#include "words.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#define KEY "key:000000000000"

static uint64_t now_us(void)
{
	return (uint64_t)(peer_now() * 1e6);
}

static void sleep_until(uint64_t us)
{
	struct timespec at = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static bool stdin_closed(void)
{
	struct pollfd watch = {.fd = 0, .events = POLLIN};

	return poll(&watch, 1, 0) > 0;
}

static void ask(struct peer *peer)
{
	long long length;

	peer_array(peer, 2);
	peer_bulk(peer, "GET", 3);
	peer_bulk(peer, KEY, strlen(KEY));
	peer_flush(peer);
	if (peer_header(peer, &length) == '$' && length >= 0)
		peer_body(peer, (size_t)length);
}

int main(int argc, char **argv)
{
	static struct histogram histogram;
	struct sched_param priority = {.sched_priority = 1};
	uint64_t interval = (uint64_t)words_number(argc, argv, "--interval-us", 1000);
	double seconds = words_number(argc, argv, "--seconds", 0);
	struct peer peer;
	uint64_t due, end;
	bool realtime;

	if (argc < 2 || interval == 0)
		peer_die("usage: peer-probe ADDRESS [--seconds N] [--interval-us N]");
	peer_connect(&peer, argv[1]);
	realtime = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
	due = now_us();
	end = seconds > 0 ? due + (uint64_t)(seconds * 1e6) : UINT64_MAX;
	while (due < end && (seconds > 0 || !stdin_closed())) {
		sleep_until(due);
		ask(&peer);
		histogram_add(&histogram, now_us() - due);
		due += interval;
	}
	printf("{\"realtime\":%s,", realtime ? "true" : "false");
	histogram_print(&histogram);
	printf("}\n");
	peer_close(&peer);
	return 0;
}
