/* The fake's queue pairs, and what work posted to them does. */
#include "fake_verbs_state.h"
#include "remote/racy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct fake_qp *pairs;
static uint32_t next_number = 100;

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
		fake_complete((struct fake_cq *)qp->ibv.recv_cq, NULL, 0, &wc);
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

int fake_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
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
	else if (!fake_covers(work->sg_list->lkey, false, ibv->pd, work->sg_list->addr,
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
	fake_complete((struct fake_cq *)peer->ibv.recv_cq, NULL, 0, &wc);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status do_read(
	const struct fake_qp *qp, const struct fake_qp *peer, const struct ibv_send_wr *work)
{
	const int sink = IBV_ACCESS_LOCAL_WRITE | (fake_verbs.iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);
	const struct ibv_sge *part = work->sg_list;

	if (fake_verbs.fail_read_after > 0 && --fake_verbs.fail_read_after == 0)
		return fake_verbs.fail_status;
	if (!fake_covers(part->lkey, false, qp->ibv.pd, part->addr, part->length, sink))
		return IBV_WC_LOC_PROT_ERR;
	if (!(peer->access & IBV_ACCESS_REMOTE_READ) ||
		!fake_covers(work->wr.rdma.rkey, true, peer->ibv.pd, work->wr.rdma.remote_addr,
			part->length, IBV_ACCESS_REMOTE_READ))
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
		fake_verbs_counts.reads_elsewhere += !pthread_equal(pthread_self(), fake_home);
	}
	qp->sends++;
	qp->unsignalled++;
	if (fake_verbs.hold)
		return;
	wc.status = execute(qp, work);
	wc.opcode = work->opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_READ;
	wc.byte_len = work->sg_list->length;
	if (wc.status == IBV_WC_SUCCESS && !signalled)
		return;
	fake_complete((struct fake_cq *)qp->ibv.send_cq, qp, qp->unsignalled, &wc);
	qp->unsignalled = 0;
	if (wc.status != IBV_WC_SUCCESS && qp->ibv.state != IBV_QPS_ERR)
		fake_qp_break(qp);
}

int fake_post_send(struct ibv_qp *ibv, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;
	bool reads = work->opcode == IBV_WR_RDMA_READ;
	int errnum = 0;

	if (reads && fake_verbs.read_us)
		usleep((useconds_t)fake_verbs.read_us);
	if (reads && fake_verbs.posting)
		fake_verbs.posting();
	LOCK();
	if (reads && fake_fails("ibv_post_send"))
		errnum = errno;
	fake_verbs_counts.doorbells += reads;
	fake_verbs_counts.elsewhere += reads && !pthread_equal(pthread_self(), fake_home);
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
