/*
 * How long the server's main thread has waited for a core of this host.
 *
 * /proc/PID/task/PID/schedstat has two numbers, in nanoseconds: the time the thread ran, and the
 * time it was ready to run and did not (kernel: Documentation/scheduler/sched-stats.rst). Any user
 * may read it, if a process of this host has that id and its /proc entry is not hidden. The first
 * number proves that the process is the server: it must equal the CPU time that the server itself
 * tells. If the id is of another pid namespace or another host, it does not.
 *
 * If it cannot be read, but the server is known to be on this host, its wait is estimated: as much
 * for each second it runs as our own thread waits.
 *
 * The caller owns the struct. The thread that looks is the one that counts as ours.
 */
#ifndef KW_PROXY_FETCH_WAITING_H
#define KW_PROXY_FETCH_WAITING_H

#include <stdbool.h>
#include <stdint.h>

/* Clocks of CPU time differ by so much, and by a hundredth of what they say. */
#define KW_WAITING_SLACK_US 20000

struct kw_thread_time {
	uint64_t run_us, wait_us;
};

struct kw_waiting_server {
	uint64_t process; /* its id in its own pid namespace; 0: unknown */
	bool near;        /* on this host for certain */
	uint64_t cpu_us;  /* of its main thread, as it says */
	uint64_t age_us;  /* how old that can be */
};

struct kw_waiting {
	struct kw_thread_time own, its; /* of the last look */
	bool own_known, its_known;
	uint64_t cpu_us;  /* … */
	uint64_t wait_us; /* the sum */
};

/*
 * Look again: all the waiting from the first look on, in microseconds. It does not grow if nothing
 * can be known.
 */
uint64_t kw_waiting_look(struct kw_waiting *waiting, const struct kw_waiting_server *server);

/* The calling thread's; the main thread's of a process. False: it cannot be read. */
bool kw_thread_time_own(struct kw_thread_time *time);
bool kw_thread_time_of(uint64_t process, struct kw_thread_time *time);

#endif
