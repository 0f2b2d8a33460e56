/* The half of the fake that is libibverbs: device, protection domains, memory regions. */
#include "fake_verbs_state.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#undef ibv_reg_mr

struct fake_mr {
	struct ibv_mr ibv;
	int access;
	struct fake_mr *next;
};

struct fake_verbs_plan fake_verbs = {.depth = 16, .devices = 1};
struct fake_verbs_counts fake_verbs_counts;
pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
int fake_objects;
pthread_t fake_home;
struct ibv_device fake_device = {.name = "fake0", .transport_type = IBV_TRANSPORT_IB};

static struct fake_mr *regions;
static uint32_t next_key = 0x1000;
static struct ibv_async_event async_events[16];
static int async_count, async_taken;

struct ibv_context fake_context = {
	.device = &fake_device,
	.ops = {.poll_cq = fake_poll_cq,
		.req_notify_cq = fake_req_notify_cq,
		.post_send = fake_post_send,
		.post_recv = fake_post_recv},
	.cmd_fd = -1,
	.async_fd = -1,
};

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
	if (fake_verbs.fail_times > 0 && --fake_verbs.fail_times == 0)
		fake_verbs.fail_call = NULL;
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

static bool is_eventfd(int fd)
{
	struct stat status;

	return fd >= 0 && fstat(fd, &status) == 0 && !S_ISCHR(status.st_mode);
}

/* What a context has open; one that was let go of leads nowhere, and is not opened again. */
static void open_context(void)
{
	int *const fds[] = {&fake_context.cmd_fd, &fake_context.async_fd};

	for (int i = 0; i < 2; i++) {
		if (is_eventfd(*fds[i]))
			continue;
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = fake_fd();
	}
}

bool fake_verbs_held(void)
{
	return is_eventfd(fake_context.cmd_fd) || is_eventfd(fake_context.async_fd);
}

void fake_verbs_remove(void)
{
	fake_verbs.devices = 0;
	LOCK();
	fake_ids_removed();
	UNLOCK();
}

void fake_verbs_add(void)
{
	fake_must(!fake_verbs_held(), "a device comes back whose context is still held");
	open_context();
	fake_verbs.devices = 1;
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **all = calloc((size_t)fake_verbs.devices + 1, sizeof *all);

	for (int i = 0; i < fake_verbs.devices; i++)
		all[i] = &fake_device;
	if (count)
		*count = fake_verbs.devices;
	return all;
}

void ibv_free_device_list(struct ibv_device **all)
{
	free(all);
}

void fake_verbs_reset(void)
{
	fake_verbs = (struct fake_verbs_plan){.depth = 16, .devices = 1};
	fake_verbs_counts = (struct fake_verbs_counts){0};
	fake_home = pthread_self();
	open_context();
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
	*attributes = (struct ibv_device_attr){.vendor_id = fake_verbs.software ? 0xffffff : 0x02c9,
		.max_qp_rd_atom = fake_verbs.depth,
		.max_qp_init_rd_atom = fake_verbs.depth};
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
	fake_verbs_counts.registered += !pthread_equal(pthread_self(), fake_home);
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

int fake_verbs_regions(void)
{
	int count = 0;

	LOCK();
	for (const struct fake_mr *at = regions; at; at = at->next)
		count += (at->access & IBV_ACCESS_REMOTE_READ) != 0;
	UNLOCK();
	return count;
}

static const struct fake_mr *find_region(uint32_t key, bool remote)
{
	for (const struct fake_mr *at = regions; at; at = at->next)
		if ((remote ? at->ibv.rkey : at->ibv.lkey) == key)
			return at;
	return NULL;
}

bool fake_covers(uint32_t key, bool remote, const struct ibv_pd *pd, uint64_t address,
	uint64_t length, int access)
{
	const struct fake_mr *mr = find_region(key, remote);
	uint64_t base;

	if (!mr || mr->ibv.pd != pd || (mr->access & access) != access)
		return false;
	base = (uintptr_t)mr->ibv.addr;
	return address >= base && address - base <= mr->ibv.length &&
	       length <= mr->ibv.length - (address - base);
}
