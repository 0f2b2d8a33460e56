/*
 * Who is the primary, judged from what each sentinel answered last. Pure: no clock, no connection.
 *
 * A server is confirmed only if all three hold:
 *   1. More than half of the voters answered questions that were asked within the lease. The time
 *      of an answer is the time of its question, so a slow answer is an old one.
 *   2. More than half of the voters name its run_id, with the same config-epoch.
 *   3. No answer that is remembered names another server with a higher epoch, and no answer in time
 *      has a higher epoch at all. The sentinel that leads a failover has the new epoch first, and
 *      names the old primary until the replicas are configured.
 *
 * A list of three configured addresses or more is closed: only these sentinels count, and no other
 * is asked. A sentinel believes every message on the channel __sentinel__:hello, so one that lies
 * can make all of them tell of sentinels that it invented. With one or two addresses the list is
 * open: these are where others are learned of, and all that are learned of count.
 *
 * How many voters there are: what the configured sentinels tell (num-other-sentinels and itself),
 * or the configured addresses if these are more. Of what a closed list tells, half at least must
 * tell so many: one that lies does not decide it. Of an open list the largest number counts. What
 * one tells counts until a smaller number is a minute newer. SENTINEL RESET makes a sentinel forget
 * the others, and for some seconds it says that it is alone.
 *
 * One sentinel can be reached under two addresses. It counts once, by its id (SENTINEL MYID). One
 * that has not told its id does not count. A sentinel clears the run_id when it switches to another
 * primary (sentinelResetMaster in sentinel.c), and tells it again after the first INFO: an empty
 * run_id names nobody. SENTINEL MASTER does not tell TILT. In TILT a sentinel only does not act,
 * so its answer counts.
 */
#ifndef KW_PROXY_MANDATE_SENTINEL_VIEW_H
#define KW_PROXY_MANDATE_SENTINEL_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_SENTINELS_MAX 32
#define KW_SENTINELS_CLOSED 3                       /* configured addresses of a closed list */
#define KW_SENTINEL_NAME_MAX 127                    /* bytes of sentinel.name */
#define KW_SENTINEL_ID 40                           /* digits of a run_id, and of a MYID */
#define KW_SENTINEL_HOST 256                        /* a name has 253 characters at most */
#define KW_SENTINEL_LEASE_US UINT64_C(900000)       /* an answer counts for so long */
#define KW_SENTINEL_MEMORY_US UINT64_C(60000000)    /* … and is remembered for so long */
#define KW_SENTINEL_VOTERS_MAX UINT64_C(0xffffffff) /* what a sentinel tells is bounded by this */

/* Where a sentinel says that the primary is. */
struct kw_sentinel_primary {
	char run_id[KW_SENTINEL_ID + 1]; /* "": it names nobody */
	char host[KW_SENTINEL_HOST];     /* a number, or a name (resolve-hostnames) */
	uint16_t port;
};

struct kw_sentinel {
	bool present;
	bool configured;             /* by an address in sentinel.addresses */
	char id[KW_SENTINEL_ID + 1]; /* "": not told yet */
	uint64_t asked_us; /* when the question was asked that it answered last; 0: it never did */
	uint64_t epoch;    /* config-epoch */
	struct kw_sentinel_primary primary;
	uint32_t voters;    /* the largest number of voters that it told … */
	uint64_t voters_us; /* … at this time; 0: none was told */
};

struct kw_sentinel_view {
	struct kw_sentinel sentinels[KW_SENTINELS_MAX];
};

enum kw_sentinel_finding {
	KW_SENTINEL_SILENT,  /* no more than half of the voters answered in time */
	KW_SENTINEL_DIVIDED, /* they did, and no majority names this server, or another one */
	KW_SENTINEL_ANOTHER, /* another server is the primary, or a newer epoch names one */
	KW_SENTINEL_OURS,
};

struct kw_sentinel_verdict {
	enum kw_sentinel_finding finding;
	uint64_t epoch;    /* OURS: of the majority; ANOTHER: the one that tells so */
	uint32_t voters;   /* how many there are */
	uint32_t listed;   /* the list is closed, and has so many addresses; 0: it is open */
	uint32_t answered; /* … that answered in time */
	uint32_t naming;   /* … and named this server, at the epoch that most of them name */
	bool named;        /* a majority names a primary: */
	struct kw_sentinel_primary primary; /* … this one, or with ANOTHER the one of `epoch` */
};

/* It told of so many others. */
void kw_sentinel_told(struct kw_sentinel *sentinel, uint64_t others, uint64_t now_us);

/* Are the configured addresses a closed list? */
bool kw_sentinel_view_is_closed(const struct kw_sentinel_view *view);

/* What does the view say of the server with this run_id ("": none is followed yet)? */
struct kw_sentinel_verdict kw_sentinel_view_judge(
	const struct kw_sentinel_view *view, const char *run_id, uint64_t now_us);

#endif
