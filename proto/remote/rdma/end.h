/*
 * One end of a reliable connection: queue pair, completion queue and channel, and registered memory
 * for messages and for what READs bring. Common to both sides.
 *
 *   init ┌───────────┐ start ┌─────────┐ a completion says so ┌────────┐
 *   ────▶│ UNWATCHED │──────▶│ WATCHED │─────────────────────▶│ BROKEN │
 *        └───────────┘       └─────────┘                      └────────┘
 *              │ stop             │ stop                           │ stop
 *              ▼                  ▼                                ▼
 *        ┌─────────────────────────────────────────────────────────────┐ close ┌────────┐
 *        │                           STOPPED                           │──────▶│ CLOSED │
 *        └─────────────────────────────────────────────────────────────┘       └────────┘
 *
 * While UNWATCHED any thread may build and connect it, which is slow. From then on it belongs to
 * the loop thread.
 *
 * The queue pair is ours, not librdmacm's: librdmacm would open it for remote READs on the way to
 * RTS, before the secret is proved. Here its access flags are 0 until kw_rdma_end_open.
 *
 * Only kw_rdma_end_poll polls the completion queue. What a device says is checked: a completion
 * must be of the kind, of the number and of the length that was asked for, or the end is BROKEN. A
 * peer can complete a receive by a write of no bytes (RDMA WRITE with immediate data), and the
 * buffer then holds what an earlier message left. Callbacks come from this function. A callback may
 * stop and close the end, but the struct must stay until its poll handle is closed.
 */
#ifndef KW_REMOTE_RDMA_END_H
#define KW_REMOTE_RDMA_END_H

#include "auth/channel.h"
#include "base/error.h"
#include "base/sm.h"
#include "remote/rdma/event.h"
#include "remote/remote.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_RDMA_MESSAGE_MAX 256
#define KW_RDMA_RECEIVES 8   /* posted at any time; the protocol never has as many under way */
#define KW_RDMA_SENDS 4      /* not yet completed */
#define KW_RDMA_SLOTS_MAX 64 /* READs of a piece in flight */
#define KW_RDMA_POLL_MAX 80  /* completions taken by one poll: a full queue, and more */

struct kw_rdma_end;

struct kw_rdma_end_ops {
	void (*message)(void *owner, const uint8_t *bytes, uint32_t length);
	void (*sent)(void *owner);                /* one SEND is through */
	void (*read)(void *owner, uint64_t last); /* READs up to this number are through */
	/*
	 * A poll has told all that it took, and READs were among it: post what was held back
	 * meanwhile, by one doorbell. NULL: this end starts no READs.
	 */
	void (*told)(void *owner);
	/*
	 * Completions might be left: kw_rdma_end_poll must be called in the next turn of the loop.
	 */
	void (*more)(void *owner);
	/* Once. Messages that had come before were told first. */
	void (*broken)(void *owner, const struct kw_error *why);
};

enum kw_rdma_end_state {
	KW_RDMA_END_UNWATCHED,
	KW_RDMA_END_WATCHED, /* the loop watches for completions */
	KW_RDMA_END_BROKEN,  /* the device refused something: why says what */
	KW_RDMA_END_STOPPED, /* no callback from now on */
	KW_RDMA_END_CLOSED,  /* everything is released */
};

struct kw_rdma_read {
	uint64_t number; /* counts up by one; slot = number % slots */
	uint64_t address;
	uint32_t rkey, length;
	bool signalled;
};

/* Posts READs in the place of the calling thread (rdma/software.h). Loop thread only. */
struct kw_rdma_poster {
	/* As kw_rdma_end_read. A failure that shows later comes by ops->broken. */
	int (*read)(struct kw_rdma_poster *poster, const struct kw_rdma_read *reads, int count,
		struct kw_error *error);
	/* A turn of the connection. */
	void (*turn)(struct kw_rdma_poster *poster);
	/*
	 * Once: drop the READs that wait. True: a thread still uses the end, which must stay as it
	 * is until idle(owner) is called, from the loop, once.
	 */
	bool (*stop)(struct kw_rdma_poster *poster, void (*idle)(void *owner), void *owner);
	void (*free)(struct kw_rdma_poster *poster); /* no thread uses the end */
};

struct kw_rdma_end {
	struct kw_sm sm; /* of enum kw_rdma_end_state */
	const struct kw_rdma_end_ops *ops;
	void *owner;
	struct rdma_cm_id *id; /* the owner's */
	struct ibv_pd *pd;     /* the owner's; NULL before build: build makes own_pd */
	struct ibv_pd *own_pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *arena; /* receives, sends, then slots */
	size_t arena_bytes;
	uint32_t slots, slot_bytes;
	uint32_t peer_pair; /* number of the other end's queue pair; 0: not connected, or iWARP */
	uint32_t sends, next_send;
	uint64_t reads_done;                     /* READs below this number are through */
	uint64_t reads_asked;                    /* … and below this one were asked for */
	uint32_t asked_bytes[KW_RDMA_SLOTS_MAX]; /* of READ n: at n % KW_RDMA_SLOTS_MAX */
	struct kw_error why;                     /* BROKEN */
	uv_poll_t *poll;                         /* the owner closes it */
	struct kw_rdma_poster *poster; /* NULL: the calling thread posts; freed by close */
};

/* Then the owner sets id, and pd if it has one. */
void kw_rdma_end_init(struct kw_rdma_end *end, const struct kw_rdma_end_ops *ops, void *owner);

/* What one device allows; any thread. */
int kw_rdma_device_depth(struct ibv_context *verbs, struct kw_error *error); /* -1: *error */

/* slots 0: this end starts no READs. Makes the queue pair and posts its receives. Any thread. */
int kw_rdma_end_build(
	struct kw_rdma_end *end, uint32_t slots, uint32_t slot_bytes, struct kw_error *error);

/* To RTS, with the attributes the connection manager knows. Any thread. */
int kw_rdma_end_connect(struct kw_rdma_end *end, uint8_t reads_out, uint8_t reads_in,
	const struct kw_rdma_options *options, struct kw_error *error);

/* What the connection is bound to, once connected. agent: this is the agent's end. */
struct kw_channel kw_rdma_end_channel(const struct kw_rdma_end *end, bool agent);

/* Let the other side READ (true), or no more (false). */
int kw_rdma_end_open(struct kw_rdma_end *end, bool open, struct kw_error *error);

/* Watch for completions: allocates end->poll, with data = handle_data. */
int kw_rdma_end_start(
	struct kw_rdma_end *end, uv_loop_t *loop, void *handle_data, struct kw_error *error);

/* Bytes are copied. KW_E_FULL: the most SENDs that are allowed are under way. */
int kw_rdma_end_send(
	struct kw_rdma_end *end, const void *bytes, uint32_t length, struct kw_error *error);

/*
 * Start READs, in order, with one doorbell for all. At most KW_RDMA_SLOTS_MAX may be out. The bytes
 * are at kw_rdma_end_slot when ops->read is called.
 */
int kw_rdma_end_read(struct kw_rdma_end *end, const struct kw_rdma_read *reads, int count,
	struct kw_error *error);
const uint8_t *kw_rdma_end_slot(const struct kw_rdma_end *end, uint64_t number);

/* For a poster: the same at once, past the poster. Any thread, but one at a time. */
int kw_rdma_end_post(struct kw_rdma_end *end, const struct kw_rdma_read *reads, int count,
	struct kw_error *error);

/*
 * Take completions until there are none, or KW_RDMA_POLL_MAX were taken. In the latter case
 * ops->more is called, so that timers and other connections get their turn.
 */
void kw_rdma_end_poll(struct kw_rdma_end *end);

/* Is an event of the device about this end (its port, its queues), or about the whole of it? */
bool kw_rdma_end_concerned(const struct kw_rdma_end *end, const struct ibv_async_event *event);

/* No callback from now on. The poll handle is stopped; the owner closes it. */
void kw_rdma_end_stop(struct kw_rdma_end *end);

/* Release everything; stopped before. Harmless twice. */
void kw_rdma_end_close(struct kw_rdma_end *end);

#endif
