/* The fake's completion channels and queues. */
#include "fake_verbs_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHANNEL_QUEUE 4096

struct fake_channel {
	struct ibv_comp_channel ibv;
	struct fake_cq *events[CHANNEL_QUEUE];
	int count;
};

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

int fake_req_notify_cq(struct ibv_cq *ibv, int solicited)
{
	(void)solicited;
	LOCK();
	((struct fake_cq *)ibv)->armed = true;
	UNLOCK();
	return 0;
}

void fake_complete(struct fake_cq *cq, struct fake_qp *qp, int frees, const struct ibv_wc *wc)
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

int fake_poll_cq(struct ibv_cq *ibv, int most, struct ibv_wc *wcs)
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
		} else if (fake_verbs.lie)
			fake_verbs.lie(&wcs[count]);
		if (cq->of[cq->first])
			cq->of[cq->first]->sends -= cq->frees[cq->first];
		cq->first = (cq->first + 1) % FAKE_QUEUE;
		cq->count--;
	}
	UNLOCK();
	return count;
}
