/*
 * libibverbs and librdmacm as far as keywake calls them, made of memory and eventfds: linked in
 * place of the libraries, so that what they punish is punished in a unit test.
 *
 *   - descriptors are real: one event, one count; none left is EAGAIN on a non-blocking one
 *   - a completion queue tells once for each arming, and destroying it aborts unless exactly the
 *     events that were taken were acknowledged; so does destroying an id with its events
 *   - private data comes padded to the maximum, and more than the limit is EINVAL, as is more depth
 *     than the device has; a queue takes no more work than it was made for, and its room comes back
 *     only with a completion that was polled
 *   - a READ is checked: queue pair's access, protection domain, region, bounds; what fails puts
 *     both queue pairs into error and flushes them
 *   - objects in use cannot be destroyed, and fake_verbs_left counts those that were forgotten
 *
 * Two ends in one process. Any thread.
 */
#ifndef KW_TEST_FAKE_VERBS_H
#define KW_TEST_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* What the device is like, and what is to go wrong. fake_verbs_reset makes all of it harmless. */
struct fake_verbs_plan {
	int depth;             /* READs in flight the device allows; 16 */
	bool iwarp;            /* sinks of READs need REMOTE_WRITE */
	bool software;         /* says that it is soft-RoCE */
	int read_us;           /* posting READs takes so long, each time … */
	void (*posting)(void); /* … or as long as this, on the posting thread; NULL: nothing */
	bool hold;             /* nothing that is posted from now on ever ends: a black hole */
	bool mute;             /* connection requests lead nowhere */
	int fail_read_after;   /* the n-th READ from now ends in fail_status; 0: none */
	enum ibv_wc_status fail_status;
	const char *fail_call; /* this function fails, with fail_errno */
	int fail_errno;
	int fail_skip;                   /* … after so many calls that do not … */
	int fail_times;                  /* … so often; 0: always */
	enum rdma_cm_event_type instead; /* comes instead of the answer to rdma_connect … */
	int instead_status;
	bool instead_set;
	int devices;                    /* of rdma_get_devices; 1 */
	void (*lie)(struct ibv_wc *wc); /* alters good completions as they are polled */
};

extern struct fake_verbs_plan fake_verbs;

void fake_verbs_reset(void);

/* Regions for remote READs that there are. */
int fake_verbs_regions(void);

/* Objects that were made and not destroyed. */
int fake_verbs_left(void);

/*
 * READs, their doorbells, those signalled, and those without access, since reset;
 * elsewhere: doorbells by another thread than the one that reset, reads_elsewhere: the READs of
 * these; registered: regions by another.
 */
struct fake_verbs_counts {
	int reads, doorbells, signalled, denied, elsewhere, reads_elsewhere, registered;
};
extern struct fake_verbs_counts fake_verbs_counts;

/* Something happens to every connected id of the active (or passive) side. */
void fake_verbs_tell(bool active, enum rdma_cm_event_type event, int status);

/* The same to all that listen. */
void fake_verbs_tell_listeners(enum rdma_cm_event_type event);

/* An asynchronous event of the device. */
void fake_verbs_async(enum ibv_event_type event, int port);

/*
 * The device is taken away: no list and no address leads to it, and the ids bound to it are told
 * so. The kernel then waits until nothing holds its context (fake_verbs_held); only then it may
 * come back.
 */
void fake_verbs_remove(void);
bool fake_verbs_held(void);
void fake_verbs_add(void);

/* As if the hosts of all passive (or active) ends were gone: nothing ever answers again. */
void fake_verbs_kill(bool passive);

#endif
