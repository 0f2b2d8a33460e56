/*
 * One end of a reliable connection: queue pair, completion queue and channel, and registered memory
 * for messages and for what READs bring. Common to both sides.
 *
 *   init ──build (any thread, slow)──▶ ──start (loop)──▶ messages, READs ──stop──▶
 *
 * The queue pair is ours, not librdmacm's: librdmacm would open it for remote READs on the way to
 * RTS, before the secret is proved. Here its access flags are 0 until kw_rdma_end_open.
 *
 * Only kw_rdma_end_poll polls the completion queue. Callbacks come from it; from within one, stop
 * may be called, but the struct stays until its poll handle is closed.
 */
#ifndef KW_REMOTE_RDMA_END_H
#define KW_REMOTE_RDMA_END_H

#include "base/error.h"
#include "remote/rdma/say.h"
#include "remote/remote.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_RDMA_MESSAGE_MAX 256
#define KW_RDMA_RECEIVES 8   /* posted at any time; the protocol never has as many under way */
#define KW_RDMA_SENDS 4      /* not yet completed */
#define KW_RDMA_SLOTS_MAX 64 /* READs of a piece in flight */

struct kw_rdma_end;

struct kw_rdma_end_ops {
	void (*message)(void *owner, const uint8_t *bytes, uint32_t length);
	void (*sent)(void *owner);                /* one SEND is through */
	void (*read)(void *owner, uint64_t last); /* READs up to this number are through */
	/* Once. Messages that had come before were told first. */
	void (*broken)(void *owner, const struct kw_error *why);
};

struct kw_rdma_end {
	const struct kw_rdma_end_ops *ops;
	void *owner;
	struct rdma_cm_id *id; /* the owner's */
	struct ibv_pd *pd;     /* the owner's, or made by build (own_pd) */
	bool own_pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *arena; /* receives, sends, then slots */
	uint32_t slots, slot_bytes;
	uint32_t sends, next_send;
	bool started, stopped, failed;
	struct kw_error why; /* failed */
	uv_poll_t *poll;     /* the owner closes it */
};

struct kw_rdma_read {
	uint64_t number; /* counts up by one; slot = number % slots */
	uint64_t address;
	uint32_t rkey, length;
	bool signalled;
};

/* What one device allows; any thread. */
int kw_rdma_device_depth(struct ibv_context *verbs, struct kw_error *error); /* -1: *error */

/* Is it software, so that posting a READ is carrying it out? Any thread. */
bool kw_rdma_device_software(struct ibv_context *verbs);

/* slots 0: this end starts no READs. Makes the queue pair and posts its receives. Any thread. */
int kw_rdma_end_build(
	struct kw_rdma_end *end, uint32_t slots, uint32_t slot_bytes, struct kw_error *error);

/* To RTS, with the attributes the connection manager knows. Any thread. */
int kw_rdma_end_connect(struct kw_rdma_end *end, uint8_t reads_out, uint8_t reads_in,
	const struct kw_rdma_options *options, struct kw_error *error);

/* Let the other side READ (true), or no more (false). */
int kw_rdma_end_open(struct kw_rdma_end *end, bool open, struct kw_error *error);

/* Watch for completions: allocates end->poll, with data = handle_data. */
int kw_rdma_end_start(
	struct kw_rdma_end *end, uv_loop_t *loop, void *handle_data, struct kw_error *error);

/* Bytes are copied. KW_E_FULL: as many SENDs as there may be are under way. */
int kw_rdma_end_send(
	struct kw_rdma_end *end, const void *bytes, uint32_t length, struct kw_error *error);

/* Up to KW_RDMA_SLOTS_MAX READs by one doorbell. The bytes are at kw_rdma_end_slot. Any thread. */
int kw_rdma_end_read(struct kw_rdma_end *end, const struct kw_rdma_read *reads, int count,
	struct kw_error *error);
const uint8_t *kw_rdma_end_slot(const struct kw_rdma_end *end, uint64_t number);

/* Look for completions until there are none. */
void kw_rdma_end_poll(struct kw_rdma_end *end);

/* Is an event of the device about this end (its port, its queues), or about the whole of it? */
bool kw_rdma_end_concerned(const struct kw_rdma_end *end, const struct ibv_async_event *event);

/* No callback from now on; the poll handle is stopped and is the owner's to close. */
void kw_rdma_end_stop(struct kw_rdma_end *end);

/* Release everything; stopped before, or never started. Harmless twice. */
void kw_rdma_end_close(struct kw_rdma_end *end);

#endif
