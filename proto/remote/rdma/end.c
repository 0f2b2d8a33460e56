#include "remote/rdma/end.h"

#include "base/buffer.h"
#include "base/secret.h"
#include "remote/socket.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096
#define BATCH 16 /* completions looked at by one call */
#define HEAD_BYTES ((KW_RDMA_RECEIVES + KW_RDMA_SENDS) * KW_RDMA_MESSAGE_MAX)

/* wr_id: what it was in the top byte, its number below. */
enum kind { RECEIVE = 1, SEND = 2, READ = 3 };
#define ID(kind, number) ((uint64_t)(kind) << 56 | (number))
#define KIND(id) ((enum kind)((id) >> 56))
#define NUMBER(id) ((id) & ((UINT64_C(1) << 56) - 1))

#define TO(state) KW_SM_TO(KW_RDMA_END_##state)
static const struct kw_sm_state states[] = {
	/* From UNWATCHED to BROKEN: an owner may poll without a loop. */
	[KW_RDMA_END_UNWATCHED] = {"unwatched", TO(WATCHED) | TO(BROKEN) | TO(STOPPED),
		KW_SM_INITIAL},
	[KW_RDMA_END_WATCHED] = {"watched", TO(BROKEN) | TO(STOPPED)},
	[KW_RDMA_END_BROKEN] = {"broken", TO(STOPPED), KW_SM_FAILURE},
	[KW_RDMA_END_STOPPED] = {"stopped", TO(CLOSED)},
	[KW_RDMA_END_CLOSED] = {"closed", 0, KW_SM_FINAL},
};

static bool end_holds(const void *owner, int state)
{
	const struct kw_rdma_end *end = owner;

	switch ((enum kw_rdma_end_state)state) {
	case KW_RDMA_END_UNWATCHED:
		return end->ops && end->owner && !end->poll;
	case KW_RDMA_END_WATCHED:
		return end->qp && end->cq && end->channel && end->mr && end->poll;
	case KW_RDMA_END_BROKEN:
		return end->why.code != KW_OK;
	case KW_RDMA_END_STOPPED:
		return true;
	case KW_RDMA_END_CLOSED:
		return !end->qp && !end->cq && !end->mr && !end->arena && !end->poster;
	}
	return false;
}

static const struct kw_sm_conf machine = {
	.where = "rdma end",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = end_holds,
};

static bool is(const struct kw_rdma_end *end, enum kw_rdma_end_state state)
{
	return end->sm.state == (int)state;
}

static bool stopped(const struct kw_rdma_end *end)
{
	return end->sm.state >= KW_RDMA_END_STOPPED;
}

void kw_rdma_end_init(struct kw_rdma_end *end, const struct kw_rdma_end_ops *ops, void *owner)
{
	*end = (struct kw_rdma_end){.ops = ops, .owner = owner};
	kw_sm_init(&end->sm, &machine, end, KW_RDMA_END_UNWATCHED);
}

static uint8_t *receive_buffer(const struct kw_rdma_end *end, uint64_t index)
{
	return end->arena + index * KW_RDMA_MESSAGE_MAX;
}

static uint8_t *send_buffer(const struct kw_rdma_end *end, uint64_t index)
{
	return end->arena + (KW_RDMA_RECEIVES + index) * KW_RDMA_MESSAGE_MAX;
}

const uint8_t *kw_rdma_end_slot(const struct kw_rdma_end *end, uint64_t number)
{
	return end->arena + HEAD_BYTES + number % end->slots * end->slot_bytes;
}

int kw_rdma_device_depth(struct ibv_context *verbs, struct kw_error *error)
{
	struct ibv_device_attr device;
	int errnum = ibv_query_device(verbs, &device);
	int depth;

	if (errnum != 0) {
		kw_error_errno(error, errnum, "RDMA device %s", ibv_get_device_name(verbs->device));
		return -1;
	}
	depth = device.max_qp_rd_atom < device.max_qp_init_rd_atom ? device.max_qp_rd_atom
								   : device.max_qp_init_rd_atom;
	return depth < UINT8_MAX ? depth : UINT8_MAX;
}

/* ---- making it ---- */

static_assert(KW_RDMA_POLL_MAX % BATCH == 0, "whole batches");
/* Who polls because the other side is gone polls once: last words may stand at the queue's end. */
static_assert(KW_RDMA_POLL_MAX >= KW_RDMA_SLOTS_MAX + KW_RDMA_RECEIVES + KW_RDMA_SENDS,
	"one poll takes all that was there when it began");
static_assert(KW_RDMA_RECEIVES + KW_RDMA_SENDS < BATCH, "only READs ever fill a batch");

static int post_receive(struct kw_rdma_end *end, uint64_t index)
{
	struct ibv_sge part = {
		.addr = (uintptr_t)receive_buffer(end, index),
		.length = KW_RDMA_MESSAGE_MAX,
		.lkey = end->mr->lkey,
	};
	struct ibv_recv_wr work = {.wr_id = ID(RECEIVE, index), .sg_list = &part, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(end->qp, &work, &bad);
}

static int build_memory(struct kw_rdma_end *end, struct kw_error *error)
{
	size_t length = HEAD_BYTES + (size_t)end->slots * end->slot_bytes;
	int access = IBV_ACCESS_LOCAL_WRITE;

	/* On iWARP the bytes of a READ arrive as the peer's writes (RFC 5040, 4.4). */
	if (end->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		access |= IBV_ACCESS_REMOTE_WRITE;
	length = (length + PAGE - 1) & ~(size_t)(PAGE - 1);
	/* Values end there: core dumps leave it out. */
	end->arena = kw_secret_try(length);
	if (!end->arena)
		return kw_error_set(error, KW_E_NOMEM, "no memory for %zu bytes", length);
	end->arena_bytes = length;
	end->mr = kw_rdma_register(end->pd, end->arena, length, access, error);
	return end->mr ? 0 : (int)KW_E_IO;
}

static int build_queues(struct kw_rdma_end *end, struct kw_error *error)
{
	uint32_t sends = end->slots + KW_RDMA_SENDS;
	struct ibv_qp_init_attr shape = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = sends,
			.max_recv_wr = KW_RDMA_RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	end->channel = ibv_create_comp_channel(end->id->verbs);
	if (!end->channel)
		return kw_error_errno(error, errno, "completion channel");
	if (fcntl(end->channel->fd, F_SETFL, O_NONBLOCK) != 0)
		return kw_error_errno(error, errno, "completion channel");
	end->cq =
		ibv_create_cq(end->id->verbs, (int)sends + KW_RDMA_RECEIVES, end, end->channel, 0);
	if (!end->cq)
		return kw_error_errno(error, errno, "completion queue");
	shape.send_cq = shape.recv_cq = end->cq;
	end->qp = ibv_create_qp(end->pd, &shape);
	if (!end->qp)
		return kw_error_errno(error, errno,
			"queue pair of %u READs (a smaller depth may do)", end->slots);
	return 0;
}

/* To INIT, which is as far as it goes before the other side is known, and its receives. */
static int build_state(struct kw_rdma_end *end, struct kw_error *error)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT};
	int mask = 0, errnum;

	if (rdma_init_qp_attr(end->id, &attributes, &mask) != 0)
		return kw_error_errno(error, errno, "queue pair: attributes");
	attributes.qp_access_flags = 0; /* no peer has proved itself yet */
	errnum = ibv_modify_qp(end->qp, &attributes, mask);
	if (errnum != 0)
		return kw_error_errno(error, errnum, "queue pair: INIT");
	errnum = ibv_req_notify_cq(end->cq, 0);
	for (uint64_t i = 0; i < KW_RDMA_RECEIVES && errnum == 0; i++)
		errnum = post_receive(end, i);
	return errnum ? kw_error_errno(error, errnum, "queue pair: receives") : 0;
}

int kw_rdma_end_build(
	struct kw_rdma_end *end, uint32_t slots, uint32_t slot_bytes, struct kw_error *error)
{
	int code;

	assert(slots <= KW_RDMA_SLOTS_MAX);
	end->slots = slots;
	end->slot_bytes = slot_bytes;
	if (!end->pd) {
		end->pd = end->own_pd = ibv_alloc_pd(end->id->verbs);
		if (!end->pd)
			return kw_error_errno(error, errno, "protection domain");
	}
	code = build_memory(end, error);
	if (code == 0)
		code = build_queues(end, error);
	if (code == 0)
		code = build_state(end, error);
	return code;
}

static int move(struct kw_rdma_end *end, enum ibv_qp_state state, uint8_t reads_out,
	uint8_t reads_in, const struct kw_rdma_options *options, struct kw_error *error)
{
	struct ibv_qp_attr attributes = {.qp_state = state};
	int mask = 0, errnum;

	if (rdma_init_qp_attr(end->id, &attributes, &mask) != 0)
		return kw_error_errno(error, errno, "queue pair: attributes");
	mask &= (IBV_QP_DEST_QPN << 1) - 1; /* some kernels add bits of their own */
	if (mask & IBV_QP_DEST_QPN)
		end->peer_pair = attributes.dest_qp_num;
	attributes.max_dest_rd_atomic = reads_in;
	attributes.max_rd_atomic = reads_out;
	if (mask & IBV_QP_TIMEOUT)
		attributes.timeout = options->ack_timeout;
	if (mask & IBV_QP_RETRY_CNT)
		attributes.retry_cnt = options->retry_count;
	errnum = ibv_modify_qp(end->qp, &attributes, mask);
	return errnum ? kw_error_errno(error, errnum, "queue pair: %s",
				state == IBV_QPS_RTR ? "ready to receive" : "ready to send")
		      : 0;
}

int kw_rdma_end_connect(struct kw_rdma_end *end, uint8_t reads_out, uint8_t reads_in,
	const struct kw_rdma_options *options, struct kw_error *error)
{
	int code = move(end, IBV_QPS_RTR, reads_out, reads_in, options, error);

	return code ? code : move(end, IBV_QPS_RTS, reads_out, reads_in, options, error);
}

/* Over iWARP, which runs on tcp, no end knows a number of the other's queue pair. */
struct kw_channel kw_rdma_end_channel(const struct kw_rdma_end *end, bool agent)
{
	uint32_t own = end->peer_pair ? end->qp->qp_num : 0, peer = end->peer_pair;
	struct kw_endpoint proxy;

	(void)kw_tcp_socket_endpoint(
		agent ? rdma_get_peer_addr(end->id) : rdma_get_local_addr(end->id), &proxy);
	return agent ? kw_channel_rdma(&proxy, own, peer) : kw_channel_rdma(&proxy, peer, own);
}

int kw_rdma_end_open(struct kw_rdma_end *end, bool open, struct kw_error *error)
{
	struct ibv_qp_attr attributes = {.qp_access_flags = open ? IBV_ACCESS_REMOTE_READ : 0};
	int errnum = ibv_modify_qp(end->qp, &attributes, IBV_QP_ACCESS_FLAGS);

	return errnum ? kw_error_errno(error, errnum, "queue pair: access") : 0;
}

/* ---- posting ---- */

static int post_failed(struct kw_error *error, int errnum, const char *what)
{
	return kw_error_errno(error, errnum, "%s cannot be posted", what);
}

int kw_rdma_end_send(
	struct kw_rdma_end *end, const void *bytes, uint32_t length, struct kw_error *error)
{
	uint8_t *buffer = send_buffer(end, end->next_send);
	struct ibv_sge part = {.addr = (uintptr_t)buffer, .length = length, .lkey = end->mr->lkey};
	struct ibv_send_wr work = {
		.wr_id = ID(SEND, end->next_send),
		.sg_list = &part,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;
	int errnum;

	assert(length > 0 && length <= KW_RDMA_MESSAGE_MAX);
	assert(end->sends <= KW_RDMA_SENDS);
	if (end->sends == KW_RDMA_SENDS)
		return kw_error_set(error, KW_E_FULL, "%d SENDs are under way", KW_RDMA_SENDS);
	memcpy(buffer, bytes, length);
	errnum = ibv_post_send(end->qp, &work, &bad);
	if (errnum != 0)
		return post_failed(error, errnum, "SEND");
	end->sends++;
	end->next_send = (end->next_send + 1) % KW_RDMA_SENDS;
	return 0;
}

int kw_rdma_end_read(struct kw_rdma_end *end, const struct kw_rdma_read *reads, int count,
	struct kw_error *error)
{
	assert(!stopped(end));
	assert(count > 0 && count <= KW_RDMA_SLOTS_MAX);
	for (int i = 0; i < count; i++)
		end->asked_bytes[reads[i].number % KW_RDMA_SLOTS_MAX] = reads[i].length;
	end->reads_asked = reads[count - 1].number + 1;
	return end->poster ? end->poster->read(end->poster, reads, count, error)
			   : kw_rdma_end_post(end, reads, count, error);
}

int kw_rdma_end_post(struct kw_rdma_end *end, const struct kw_rdma_read *reads, int count,
	struct kw_error *error)
{
	struct ibv_send_wr works[KW_RDMA_SLOTS_MAX], *bad;
	struct ibv_sge parts[KW_RDMA_SLOTS_MAX];
	int errnum;

	assert(count > 0 && count <= KW_RDMA_SLOTS_MAX);
	for (int i = 0; i < count; i++) {
		assert(reads[i].length > 0 && reads[i].length <= end->slot_bytes);
		assert(i == 0 || reads[i].number == reads[i - 1].number + 1);
		parts[i] = (struct ibv_sge){
			.addr = (uintptr_t)kw_rdma_end_slot(end, reads[i].number),
			.length = reads[i].length,
			.lkey = end->mr->lkey,
		};
		works[i] = (struct ibv_send_wr){
			.wr_id = ID(READ, reads[i].number),
			.next = i + 1 < count ? &works[i + 1] : NULL,
			.sg_list = &parts[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_READ,
			.send_flags = reads[i].signalled ? IBV_SEND_SIGNALED : 0,
			.wr.rdma = {reads[i].address, reads[i].rkey},
		};
	}
	errnum = ibv_post_send(end->qp, works, &bad);
	return errnum ? post_failed(error, errnum, "READ") : 0;
}

/* ---- completions ---- */

static const char *kind_name(enum kind kind)
{
	return kind == READ ? "READ" : kind == SEND ? "SEND" : "receive";
}

/* The first failure says why. Those after it were only flushed. */
static void fail(struct kw_rdma_end *end, const struct kw_error *why)
{
	if (is(end, KW_RDMA_END_BROKEN) || stopped(end))
		return;
	end->why = *why;
	kw_sm_move(&end->sm, KW_RDMA_END_BROKEN, why->text);
}

static void completion_failed(struct kw_rdma_end *end, const struct ibv_wc *completion)
{
	struct kw_error why;

	if (is(end, KW_RDMA_END_BROKEN))
		return; /* not counted again */
	kw_rdma_completion_error(&why, completion->status, kind_name(KIND(completion->wr_id)));
	fail(end, &why);
}

/* Is it what was asked for? The opcode and the length are the device's, the id is ours. */
static bool is_expected(const struct kw_rdma_end *end, const struct ibv_wc *completion)
{
	uint64_t number = NUMBER(completion->wr_id);

	switch (KIND(completion->wr_id)) {
	case RECEIVE:
		return completion->opcode == IBV_WC_RECV && number < KW_RDMA_RECEIVES &&
		       completion->byte_len > 0 && completion->byte_len <= KW_RDMA_MESSAGE_MAX;
	case SEND:
		return completion->opcode == IBV_WC_SEND && end->sends > 0;
	case READ:
		return completion->opcode == IBV_WC_RDMA_READ && number >= end->reads_done &&
		       number < end->reads_asked &&
		       completion->byte_len == end->asked_bytes[number % KW_RDMA_SLOTS_MAX];
	}
	return false;
}

static void refuse(struct kw_rdma_end *end, const struct ibv_wc *completion)
{
	struct kw_error why;

	if (!is(end, KW_RDMA_END_BROKEN))
		kw_rdma_count(KW_RDMA_STRANGE);
	kw_error_set(&why, KW_E_PROTOCOL,
		"the device completed a %s that was not asked for so (opcode %d, %u bytes): the "
		"other side is hostile, or the device is faulty",
		kind_name(KIND(completion->wr_id)), (int)completion->opcode, completion->byte_len);
	fail(end, &why);
}

static void take_message(struct kw_rdma_end *end, uint64_t number, uint32_t length)
{
	uint8_t bytes[KW_RDMA_MESSAGE_MAX];
	struct kw_error why;
	int errnum;

	/* The receive is posted again before an answer can make the other side send more. */
	memcpy(bytes, receive_buffer(end, number), length);
	errnum = post_receive(end, number);
	if (errnum != 0) {
		(void)post_failed(&why, errnum, "receive");
		fail(end, &why);
	}
	end->ops->message(end->owner, bytes, length);
}

static void take(struct kw_rdma_end *end, const struct ibv_wc *completion)
{
	uint64_t number = NUMBER(completion->wr_id);

	if (completion->status != IBV_WC_SUCCESS) {
		completion_failed(end, completion);
		return;
	}
	if (!is_expected(end, completion)) {
		refuse(end, completion);
		return;
	}
	switch (KIND(completion->wr_id)) {
	case RECEIVE:
		take_message(end, number, completion->byte_len);
		return;
	case SEND:
		end->sends--;
		end->ops->sent(end->owner);
		return;
	case READ:
		end->reads_done = number + 1;
		end->ops->read(end->owner, number);
		return;
	}
}

void kw_rdma_end_poll(struct kw_rdma_end *end)
{
	const uint64_t done = end->reads_done;
	struct ibv_wc completions[BATCH];
	struct kw_error why;
	int count = 0;

	/*
	 * Bounded: a callback can post what completes at once, so the queue might never be empty.
	 */
	for (int round = 0; round < KW_RDMA_POLL_MAX / BATCH && !stopped(end); round++) {
		count = ibv_poll_cq(end->cq, BATCH, completions);
		for (int i = 0; i < count && !stopped(end); i++)
			take(end, &completions[i]);
		if (count < BATCH)
			break;
	}
	if (count < 0) {
		kw_error_set(&why, KW_E_IO, "the completion queue cannot be polled");
		fail(end, &why);
	}
	if (!is(end, KW_RDMA_END_BROKEN) && !stopped(end) && end->reads_done > done &&
		end->ops->told)
		end->ops->told(end->owner);
	if (is(end, KW_RDMA_END_BROKEN))
		end->ops->broken(end->owner, &end->why);
	else if (count == BATCH && !stopped(end))
		end->ops->more(end->owner);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct kw_rdma_end *end = NULL;
	struct ibv_cq *cq;
	void *context;
	struct kw_error why;
	unsigned int count = 0;

	(void)status;
	(void)events;
	memcpy(&end, (char *)(poll + 1), sizeof end);
	/* Take all, acknowledge as many, arm, then look: in another order events are lost. */
	while (ibv_get_cq_event(end->channel, &cq, &context) == 0)
		count++;
	if (count == 0)
		return;
	ibv_ack_cq_events(end->cq, count);
	if (ibv_req_notify_cq(end->cq, 0) != 0) {
		kw_error_set(&why, KW_E_IO, "the completion queue cannot be armed");
		fail(end, &why);
	}
	kw_rdma_end_poll(end);
}

int kw_rdma_end_start(
	struct kw_rdma_end *end, uv_loop_t *loop, void *handle_data, struct kw_error *error)
{
	int status;

	/* `data` is the owner's. The pointer to the end stands after the handle. */
	end->poll = kw_zalloc(sizeof *end->poll + sizeof end);
	memcpy((char *)(end->poll + 1), &end, sizeof end);
	status = uv_poll_init(loop, end->poll, end->channel->fd);
	if (status != 0) {
		free(end->poll);
		end->poll = NULL;
		return kw_error_errno(error, -status, "completion channel");
	}
	end->poll->data = handle_data;
	kw_sm_move(&end->sm, KW_RDMA_END_WATCHED, "");
	uv_poll_start(end->poll, UV_READABLE, on_poll);
	return 0;
}

bool kw_rdma_end_concerned(const struct kw_rdma_end *end, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_PORT_ERR:
		return event->element.port_num == end->id->port_num;
	case IBV_EVENT_CQ_ERR:
		return event->element.cq == end->cq;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return event->element.qp == end->qp;
	default:
		return true;
	}
}

/* ---- the end ---- */

void kw_rdma_end_stop(struct kw_rdma_end *end)
{
	if (stopped(end))
		return;
	if (end->poll)
		uv_poll_stop(end->poll);
	kw_sm_move(&end->sm, KW_RDMA_END_STOPPED, "");
}

void kw_rdma_end_close(struct kw_rdma_end *end)
{
	if (is(end, KW_RDMA_END_CLOSED))
		return;
	if (end->poster)
		end->poster->free(end->poster);
	if (end->qp)
		(void)ibv_destroy_qp(end->qp);
	if (end->cq)
		(void)ibv_destroy_cq(end->cq);
	if (end->channel)
		(void)ibv_destroy_comp_channel(end->channel);
	kw_rdma_unregister(end->mr);
	if (end->own_pd)
		(void)ibv_dealloc_pd(end->own_pd);
	kw_secret_free(end->arena, end->arena_bytes);
	end->poster = NULL;
	end->qp = NULL;
	end->cq = NULL;
	end->channel = NULL;
	end->mr = NULL;
	end->pd = end->own_pd = NULL;
	end->arena = NULL;
	kw_sm_move(&end->sm, KW_RDMA_END_CLOSED, "");
}
