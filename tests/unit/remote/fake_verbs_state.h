/* What the parts of the fake share: fake_verbs.c (device, memory), _cq.c, _qp.c and _cm.c. */
#ifndef KW_TEST_FAKE_VERBS_STATE_H
#define KW_TEST_FAKE_VERBS_STATE_H

#include "fake_verbs.h"

#include <pthread.h>
#include <stdint.h>

#define FAKE_QUEUE 512
#define LOCK() pthread_mutex_lock(&fake_lock)
#define UNLOCK() pthread_mutex_unlock(&fake_lock)

struct fake_pd {
	struct ibv_pd ibv;
	int users;
};

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
extern pthread_t fake_home; /* who reset the fake */
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

/* With the lock held: the ids on the device are told that it was removed. */
void fake_ids_removed(void);

/* What a context calls. */
int fake_poll_cq(struct ibv_cq *ibv, int most, struct ibv_wc *wcs);
int fake_req_notify_cq(struct ibv_cq *ibv, int solicited);
int fake_post_send(struct ibv_qp *ibv, struct ibv_send_wr *work, struct ibv_send_wr **bad);
int fake_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *work, struct ibv_recv_wr **bad);

/* With the lock held. */
struct fake_qp *fake_find_qp(uint32_t number);
void fake_qp_break(struct fake_qp *qp);
/* Does the region of this key (the remote one of the two?) allow that access to all of it? */
bool fake_covers(uint32_t key, bool remote, const struct ibv_pd *pd, uint64_t address,
	uint64_t length, int access);
/* Polled, it gives `frees` places back to the send queue of qp (which may be NULL). */
void fake_complete(struct fake_cq *cq, struct fake_qp *qp, int frees, const struct ibv_wc *wc);

#endif
