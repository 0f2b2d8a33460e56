/* What fake_verbs.c and fake_verbs_cm.c share. */
#ifndef KW_TEST_FAKE_VERBS_STATE_H
#define KW_TEST_FAKE_VERBS_STATE_H

#include "fake_verbs.h"

#include <pthread.h>
#include <stdint.h>

#define FAKE_QUEUE 512

struct fake_cq {
	struct ibv_cq ibv;
	struct ibv_wc wcs[FAKE_QUEUE];
	struct fake_qp *of[FAKE_QUEUE]; /* whose send queue gets `frees` back */
	int frees[FAKE_QUEUE];
	int first, count;
	bool armed;
	unsigned int taken, acknowledged;
	int users;
};

struct fake_receive {
	uint64_t id;
	struct ibv_sge part;
};

struct fake_qp {
	struct ibv_qp ibv;
	struct fake_qp *peer, *next;
	unsigned int access;
	int max_sends, sends, unsignalled;
	struct fake_receive receives[FAKE_QUEUE];
	int first, count, max_receives;
};

extern pthread_mutex_t fake_lock;
extern int fake_objects;
extern struct ibv_context fake_context;
extern struct ibv_device fake_device;

/* Fails the test's process with a sentence: what real hardware would hang or crash on. */
void fake_must(bool holds, const char *what);

/* Is this call to fail? Sets errno then. */
bool fake_fails(const char *call);

int fake_fd(void);           /* an eventfd that counts */
void fake_fd_add(int fd);    /* one event more */
bool fake_fd_take(int fd);   /* false: none; blocks on a blocking one */
void fake_fd_forget(int fd); /* one event less, without waiting */

/* With the lock held. */
struct fake_qp *fake_find_qp(uint32_t number);
void fake_qp_break(struct fake_qp *qp);

#endif
