/* The half of the fake that is libibverbs. */
#include "fake_verbs_state.h"
#include "remote/racy.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_reg_mr

#define CHANNEL_QUEUE 4096

struct fake_channel {
	struct ibv_comp_channel ibv;
	struct fake_cq *events[CHANNEL_QUEUE];
	int count;
};

struct fake_mr {
	struct ibv_mr ibv;
	int access;
	struct fake_mr *next;
};

struct fake_pd {
	struct ibv_pd ibv;
	int users;
};

struct fake_verbs_plan fake_verbs = {.depth = 16, .devices = 1};
struct fake_verbs_counts fake_verbs_counts;
pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
int fake_objects;
struct ibv_device fake_device = {.name = "fake0", .transport_type = IBV_TRANSPORT_IB};

static struct fake_mr *regions;
static struct fake_qp *pairs;
static uint32_t next_number = 100, next_key = 0x1000;
static struct ibv_async_event async_events[16];
static int async_count, async_taken;

static int poll_cq(struct ibv_cq *ibv, int most, struct ibv_wc *wcs);
static int req_notify_cq(struct ibv_cq *ibv, int solicited);
static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *work, struct ibv_send_wr **bad);
static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *work, struct ibv_recv_wr **bad);

struct ibv_context fake_context = {
	.device = &fake_device,
	.ops = {.poll_cq = poll_cq,
		.req_notify_cq = req_notify_cq,
		.post_send = post_send,
		.post_recv = post_recv},
	.async_fd = -1,
};

#define LOCK() pthread_mutex_lock(&fake_lock)
#define UNLOCK() pthread_mutex_unlock(&fake_lock)

void fake_must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fake verbs: %s\n", what);
	abort();
}

bool fake_fails(const char *call)
{
	if (!fake_verbs.fail_call || strcmp(fake_verbs.fail_call, call) != 0)
		return false;
	if (fake_verbs.fail_skip-- > 0)
		return false;
	errno = fake_verbs.fail_errno;
	return true;
}

/* ---- descriptors ---- */

int fake_fd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	fake_must(fd >= 0, "no descriptors left");
	return fd;
}

void fake_fd_add(int fd)
{
	const uint64_t one = 1;

	fake_must(write(fd, &one, sizeof one) == sizeof one, "write to an eventfd");
}

bool fake_fd_take(int fd)
{
	uint64_t value;

	return read(fd, &value, sizeof value) == sizeof value;
}

void fake_fd_forget(int fd)
{
	struct pollfd entry = {.fd = fd, .events = POLLIN};

	fake_must(
		poll(&entry, 1, 0) == 1 && fake_fd_take(fd), "an event has no descriptor's count");
}

/* ---- device ---- */

void fake_verbs_reset(void)
{
	fake_verbs = (struct fake_verbs_plan){.depth = 16, .devices = 1};
	fake_verbs_counts = (struct fake_verbs_counts){0};
	if (fake_context.async_fd < 0)
		fake_context.async_fd = fake_fd();
}

int fake_verbs_left(void)
{
	return fake_objects;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
	(void)context;
	if (fake_fails("ibv_query_device"))
		return errno;
	fake_device.transport_type = fake_verbs.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	*attributes = (struct ibv_device_attr){
		.max_qp_rd_atom = fake_verbs.depth, .max_qp_init_rd_atom = fake_verbs.depth};
	return 0;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_GENERAL_ERR ? "general error" : "an error";
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
	return event == IBV_EVENT_QP_FATAL ? "local work queue catastrophic error" : "an event";
}

void fake_verbs_async(enum ibv_event_type event, int port)
{
	LOCK();
	fake_must(async_count < 16, "too many asynchronous events for this fake");
	async_events[async_count++] =
		(struct ibv_async_event){.element.port_num = port, .event_type = event};
	UNLOCK();
	fake_fd_add(fake_context.async_fd);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (!fake_fd_take(context->async_fd))
		return -1;
	LOCK();
	*event = async_events[0];
	memmove(async_events, async_events + 1, (size_t)--async_count * sizeof *async_events);
	async_taken++;
	UNLOCK();
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	fake_must(--async_taken >= 0, "an asynchronous event acknowledged twice");
}

/* ---- domains and regions ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct fake_pd *pd;

	if (fake_fails("ibv_alloc_pd"))
		return NULL;
	pd = calloc(1, sizeof *pd);
	pd->ibv.context = context;
	LOCK();
	fake_objects++;
	UNLOCK();
	return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct fake_pd *pd = (struct fake_pd *)ibv;

	fake_must(pd->users == 0, "a protection domain is freed that is in use");
	LOCK();
	fake_objects--;
	UNLOCK();
	free(pd);
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *base, size_t length, int access)
{
	struct fake_mr *mr;

	if (fake_fails("ibv_reg_mr"))
		return NULL;
	mr = calloc(1, sizeof *mr);
	mr->access = access;
	LOCK();
	mr->ibv = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = base, .length = length};
	mr->ibv.lkey = next_key++;
	mr->ibv.rkey = next_key++;
	mr->next = regions;
	regions = mr;
	((struct fake_pd *)pd)->users++;
	fake_objects++;
	UNLOCK();
	return &mr->ibv;
}

struct ibv_mr *ibv_reg_mr_iova2(
	struct ibv_pd *pd, void *base, size_t length, uint64_t iova, unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(pd, base, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct fake_mr **at = &regions, *mr = (struct fake_mr *)ibv;

	LOCK();
	while (*at && *at != mr)
		at = &(*at)->next;
	fake_must(*at != NULL, "a region is deregistered twice");
	*at = mr->next;
	((struct fake_pd *)ibv->pd)->users--;
	fake_objects--;
	UNLOCK();
	free(mr);
	return 0;
}

static const struct fake_mr *find_region(uint32_t key, bool remote)
{
	for (const struct fake_mr *at = regions; at; at = at->next)
		if ((remote ? at->ibv.rkey : at->ibv.lkey) == key)
			return at;
	return NULL;
}

static bool covers(const struct fake_mr *mr, const struct ibv_pd *pd, uint64_t address,
	uint64_t length, int access)
{
	uint64_t base;

	if (!mr || mr->ibv.pd != pd || (mr->access & access) != access)
		return false;
	base = (uintptr_t)mr->ibv.addr;
	return address >= base && address - base <= mr->ibv.length &&
	       length <= mr->ibv.length - (address - base);
}

/* ---- completion ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct fake_channel *channel;

	if (fake_fails("ibv_create_comp_channel"))
		return NULL;
	channel = calloc(1, sizeof *channel);
	channel->ibv = (struct ibv_comp_channel){.context = context, .fd = fake_fd()};
	LOCK();
	fake_objects++;
	UNLOCK();
	return &channel->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	fake_must(ibv->refcnt == 0, "a completion channel is destroyed that is in use");
	close(ibv->fd);
	LOCK();
	fake_objects--;
	UNLOCK();
	free(ibv);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
	struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq;

	(void)vector;
	if (fake_fails("ibv_create_cq"))
		return NULL;
	fake_must(entries > 0 && entries <= FAKE_QUEUE, "a completion queue of that size");
	cq = calloc(1, sizeof *cq);
	cq->ibv = (struct ibv_cq){
		.context = context, .channel = channel, .cq_context = cq_context, .cqe = entries};
	LOCK();
	channel->refcnt++;
	fake_objects++;
	UNLOCK();
	return &cq->ibv;
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct fake_cq *cq = (struct fake_cq *)ibv;
	struct fake_channel *channel = (struct fake_channel *)ibv->channel;
	int kept = 0;

	LOCK();
	fake_must(cq->users == 0, "a completion queue is destroyed that is in use");
	fake_must(cq->taken == cq->acknowledged,
		"a completion queue is destroyed with other than all of its events acknowledged");
	for (int i = 0; i < channel->count; i++)
		if (channel->events[i] == cq)
			fake_fd_forget(channel->ibv.fd);
		else
			channel->events[kept++] = channel->events[i];
	channel->count = kept;
	channel->ibv.refcnt--;
	fake_objects--;
	UNLOCK();
	free(cq);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **context)
{
	struct fake_channel *channel = (struct fake_channel *)ibv;

	if (!fake_fd_take(ibv->fd))
		return -1;
	LOCK();
	*cq = &channel->events[0]->ibv;
	*context = (*cq)->cq_context;
	channel->events[0]->taken++;
	channel->count--;
	memmove(channel->events, channel->events + 1,
		(size_t)channel->count * sizeof *channel->events);
	UNLOCK();
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *ibv, unsigned int count)
{
	struct fake_cq *cq = (struct fake_cq *)ibv;

	LOCK();
	cq->acknowledged += count;
	fake_must(cq->acknowledged <= cq->taken, "more events acknowledged than were taken");
	UNLOCK();
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited)
{
	(void)solicited;
	LOCK();
	((struct fake_cq *)ibv)->armed = true;
	UNLOCK();
	return 0;
}

static void complete(struct fake_cq *cq, struct fake_qp *qp, int frees, const struct ibv_wc *wc)
{
	struct fake_channel *channel = (struct fake_channel *)cq->ibv.channel;
	int at = (cq->first + cq->count) % FAKE_QUEUE;

	fake_must(cq->count < cq->ibv.cqe, "a completion queue overflows");
	cq->wcs[at] = *wc;
	cq->of[at] = qp;
	cq->frees[at] = frees;
	cq->count++;
	/* Once for each arming, and only for what came behind it. */
	if (!cq->armed)
		return;
	cq->armed = false;
	fake_must(channel->count < CHANNEL_QUEUE, "too many events for this fake");
	channel->events[channel->count++] = cq;
	fake_fd_add(channel->ibv.fd);
}

static int poll_cq(struct ibv_cq *ibv, int most, struct ibv_wc *wcs)
{
	struct fake_cq *cq = (struct fake_cq *)ibv;
	int count = 0;

	LOCK();
	for (; count < most && cq->count > 0; count++) {
		wcs[count] = cq->wcs[cq->first];
		/* As hardware does: of a bad completion little more than id and status is set. */
		if (wcs[count].status != IBV_WC_SUCCESS) {
			wcs[count].opcode = (enum ibv_wc_opcode)0x55;
			wcs[count].byte_len = 0x55555555;
		}
		if (cq->of[cq->first])
			cq->of[cq->first]->sends -= cq->frees[cq->first];
		cq->first = (cq->first + 1) % FAKE_QUEUE;
		cq->count--;
	}
	UNLOCK();
	return count;
}

/* ---- queue pairs ---- */

struct fake_qp *fake_find_qp(uint32_t number)
{
	struct fake_qp *at = pairs;

	while (at && at->ibv.qp_num != number)
		at = at->next;
	return at;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *shape)
{
	struct fake_qp *qp;

	if (fake_fails("ibv_create_qp"))
		return NULL;
	fake_must(shape->qp_type == IBV_QPT_RC, "a queue pair that is not RC");
	qp = calloc(1, sizeof *qp);
	qp->max_sends = (int)shape->cap.max_send_wr;
	qp->max_receives = (int)shape->cap.max_recv_wr;
	LOCK();
	qp->ibv = (struct ibv_qp){.context = pd->context,
		.pd = pd,
		.send_cq = shape->send_cq,
		.recv_cq = shape->recv_cq,
		.qp_num = next_number++,
		.state = IBV_QPS_RESET};
	((struct fake_cq *)shape->send_cq)->users++;
	((struct fake_pd *)pd)->users++;
	fake_objects++;
	qp->next = pairs;
	pairs = qp;
	UNLOCK();
	return &qp->ibv;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct fake_qp **at = &pairs, *qp = (struct fake_qp *)ibv;
	struct fake_cq *cq = (struct fake_cq *)ibv->send_cq;

	LOCK();
	while (*at != qp)
		at = &(*at)->next;
	*at = qp->next;
	for (struct fake_qp *other = pairs; other; other = other->next)
		if (other->peer == qp)
			other->peer = NULL;
	for (int i = 0; i < FAKE_QUEUE; i++)
		if (cq->of[i] == qp)
			cq->of[i] = NULL;
	cq->users--;
	((struct fake_pd *)ibv->pd)->users--;
	fake_objects--;
	UNLOCK();
	free(qp);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attributes, int mask)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;
	enum ibv_qp_state from = ibv->state, to = attributes->qp_state;

	if (fake_fails("ibv_modify_qp"))
		return errno;
	LOCK();
	if (mask & IBV_QP_ACCESS_FLAGS)
		qp->access = attributes->qp_access_flags;
	if (mask & IBV_QP_STATE) {
		fake_must(to == IBV_QPS_ERR || to == from + 1, "a queue pair skips a state");
		ibv->state = to;
	}
	if (mask & IBV_QP_DEST_QPN)
		qp->peer = fake_find_qp(attributes->dest_qp_num);
	fake_must(!(mask & IBV_QP_RETRY_CNT) || attributes->retry_cnt < 7, "retries for ever");
	if (((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attributes->max_rd_atomic > fake_verbs.depth) ||
		((mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
			attributes->max_dest_rd_atomic > fake_verbs.depth)) {
		UNLOCK();
		return EINVAL;
	}
	UNLOCK();
	return 0;
}

void fake_qp_break(struct fake_qp *qp)
{
	qp->ibv.state = IBV_QPS_ERR;
	while (qp->count > 0) {
		const struct ibv_wc wc = {
			.wr_id = qp->receives[qp->first].id, .status = IBV_WC_WR_FLUSH_ERR};

		qp->first = (qp->first + 1) % FAKE_QUEUE;
		qp->count--;
		complete((struct fake_cq *)qp->ibv.recv_cq, NULL, 0, &wc);
	}
}

void fake_verbs_kill(bool passive)
{
	LOCK();
	/* Only the active ends have room for more than messages. */
	for (struct fake_qp *at = pairs; at; at = at->next)
		if (at->peer && (at->peer->max_sends < at->max_sends) == passive)
			at->peer = NULL;
	UNLOCK();
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;
	int errnum = 0;

	LOCK();
	*bad = work;
	fake_must(
		work->num_sge == 1 && !work->next, "one receive of one part is what is known here");
	if (ibv->state == IBV_QPS_RESET)
		errnum = EINVAL;
	else if (qp->count == qp->max_receives)
		errnum = ENOMEM;
	else if (!covers(find_region(work->sg_list->lkey, false), ibv->pd, work->sg_list->addr,
			 work->sg_list->length, IBV_ACCESS_LOCAL_WRITE))
		errnum = EFAULT;
	if (errnum == 0) {
		qp->receives[(qp->first + qp->count) % FAKE_QUEUE] =
			(struct fake_receive){work->wr_id, *work->sg_list};
		qp->count++;
		if (ibv->state == IBV_QPS_ERR)
			fake_qp_break(qp);
	}
	UNLOCK();
	return errnum;
}

static enum ibv_wc_status do_send(struct fake_qp *peer, const struct ibv_sge *part)
{
	struct fake_receive receive;
	struct ibv_wc wc = {.opcode = IBV_WC_RECV, .byte_len = part->length};

	if (peer->count == 0)
		return IBV_WC_RNR_RETRY_EXC_ERR;
	receive = peer->receives[peer->first];
	if (receive.part.length < part->length)
		return IBV_WC_REM_INV_REQ_ERR;
	peer->first = (peer->first + 1) % FAKE_QUEUE;
	peer->count--;
	memcpy((void *)(uintptr_t)receive.part.addr, (void *)(uintptr_t)part->addr, part->length);
	wc.wr_id = receive.id;
	complete((struct fake_cq *)peer->ibv.recv_cq, NULL, 0, &wc);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status do_read(
	const struct fake_qp *qp, const struct fake_qp *peer, const struct ibv_send_wr *work)
{
	const int sink = IBV_ACCESS_LOCAL_WRITE | (fake_verbs.iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);
	const struct ibv_sge *part = work->sg_list;

	if (fake_verbs.fail_read_after > 0 && --fake_verbs.fail_read_after == 0)
		return fake_verbs.fail_status;
	if (!covers(find_region(part->lkey, false), qp->ibv.pd, part->addr, part->length, sink))
		return IBV_WC_LOC_PROT_ERR;
	if (!(peer->access & IBV_ACCESS_REMOTE_READ) ||
		!covers(find_region(work->wr.rdma.rkey, true), peer->ibv.pd,
			work->wr.rdma.remote_addr, part->length, IBV_ACCESS_REMOTE_READ))
		return IBV_WC_REM_ACCESS_ERR;
	/* Somebody may be writing what is read, as with a NIC. */
	kw_racy_copy((void *)(uintptr_t)part->addr,
		(const void *)(uintptr_t)work->wr.rdma.remote_addr, part->length);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status execute(struct fake_qp *qp, const struct ibv_send_wr *work)
{
	struct fake_qp *peer = qp->peer;
	enum ibv_wc_status status;

	if (qp->ibv.state == IBV_QPS_ERR)
		return IBV_WC_WR_FLUSH_ERR;
	if (!peer || peer->ibv.state < IBV_QPS_RTR || peer->ibv.state == IBV_QPS_ERR)
		return IBV_WC_RETRY_EXC_ERR;
	status = work->opcode == IBV_WR_SEND ? do_send(peer, work->sg_list)
					     : do_read(qp, peer, work);
	fake_verbs_counts.denied += status == IBV_WC_REM_ACCESS_ERR;
	if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR)
		fake_qp_break(peer);
	return status;
}

static void start(struct fake_qp *qp, const struct ibv_send_wr *work)
{
	bool signalled = work->send_flags & IBV_SEND_SIGNALED;
	struct ibv_wc wc = {.wr_id = work->wr_id};

	if (work->opcode == IBV_WR_RDMA_READ) {
		fake_verbs_counts.reads++;
		fake_verbs_counts.signalled += signalled;
		fake_verbs_counts.fenced += (work->send_flags & IBV_SEND_FENCE) != 0;
	}
	qp->sends++;
	qp->unsignalled++;
	if (fake_verbs.hold)
		return;
	wc.status = execute(qp, work);
	wc.opcode = work->opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_READ;
	if (wc.status == IBV_WC_SUCCESS && !signalled)
		return;
	complete((struct fake_cq *)qp->ibv.send_cq, qp, qp->unsignalled, &wc);
	qp->unsignalled = 0;
	if (wc.status != IBV_WC_SUCCESS && qp->ibv.state != IBV_QPS_ERR)
		fake_qp_break(qp);
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;
	int errnum = 0;

	LOCK();
	if (work->opcode == IBV_WR_RDMA_READ)
		fake_verbs_counts.doorbells++;
	for (; work && errnum == 0; work = errnum ? work : work->next) {
		*bad = work;
		if (ibv->state != IBV_QPS_RTS && ibv->state != IBV_QPS_ERR)
			errnum = EINVAL;
		else if (qp->sends == qp->max_sends)
			errnum = ENOMEM;
		else
			start(qp, work);
	}
	UNLOCK();
	return errnum;
}
