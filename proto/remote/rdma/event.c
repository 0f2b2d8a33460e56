#include "remote/rdma/event.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define CAP_IPC_LOCK_BIT 14 /* linux/capability.h */
#define ERRNO_MAX 4095      /* linux/err.h */

/* Reasons of a REJECTED event, from the IB specification's communication management (12.6.7.2). */
#define REJ_INVALID_SERVICE_ID 8
#define REJ_STALE_CONNECTION 10
#define REJ_CONSUMER_DEFINED 28

static _Atomic uint64_t registered;

/* ---- private data ---- */

void kw_rdma_private_init(struct kw_rdma_private *data, enum kw_rdma_reject reject)
{
	*data = (struct kw_rdma_private){
		.magic = KW_RDMA_MAGIC,
		.version = KW_RDMA_VERSION,
		.length = sizeof *data,
		.reject = (uint16_t)reject,
	};
}

enum kw_rdma_reject kw_rdma_private_check(const uint8_t *bytes, size_t length)
{
	struct kw_rdma_private data;

	if (length < sizeof data)
		return KW_RDMA_REJECT_FOREIGN;
	memcpy(&data, bytes, sizeof data);
	if (data.magic != KW_RDMA_MAGIC || data.length < sizeof data || data.length > length)
		return KW_RDMA_REJECT_FOREIGN;
	return data.version == KW_RDMA_VERSION ? KW_RDMA_REJECT_NONE : KW_RDMA_REJECT_VERSION;
}

struct rdma_event_channel *kw_rdma_channel_new(struct kw_error *error)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	int errnum = errno;

	if (!channel && errnum == ENODEV)
		kw_error_set(error, KW_E_GONE, "%s", KW_RDMA_NO_DEVICE);
	else if (!channel)
		kw_error_errno(error, errnum,
			"the RDMA connection manager cannot be reached (modprobe rdma_ucm; is "
			"/dev/infiniband/rdma_cm there, and may this user open it? In a service: "
			"the "
			"drop-in rdma.conf)");
	/* Its module can be loaded after this process has started. */
	if (!channel && (errnum == ENOENT || errnum == ENXIO))
		error->code = KW_E_GONE;
	if (!channel || fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0)
		return channel;
	kw_error_errno(error, errno, "event channel");
	rdma_destroy_event_channel(channel);
	return NULL;
}

bool kw_rdma_cm_event_take(struct rdma_event_channel *channel, struct kw_rdma_cm_event *cm_event)
{
	struct rdma_cm_event *event;
	const struct rdma_conn_param *conn;

	if (rdma_get_cm_event(channel, &event) != 0)
		return false;
	conn = &event->param.conn;
	*cm_event = (struct kw_rdma_cm_event){
		.type = event->event,
		.status = event->status,
		.id = event->id,
		.initiator_depth = conn->initiator_depth,
		.responder_resources = conn->responder_resources,
	};
	if (conn->private_data) {
		cm_event->data_length = conn->private_data_len;
		memcpy(cm_event->data, conn->private_data, cm_event->data_length);
	}
	/* Destroying the id would wait for this, so it comes before anything is done. */
	rdma_ack_cm_event(event);
	return true;
}

/* ---- sentences: the connection manager ---- */

static int fault(
	struct kw_error *error, enum kw_rdma_count count, enum kw_code code, const char *sentence)
{
	kw_rdma_count(count);
	return kw_error_set(error, code, "%s", sentence);
}

static int our_reject(struct kw_error *error, const struct kw_rdma_private *data)
{
	kw_rdma_count(KW_RDMA_REJECTED);
	switch ((enum kw_rdma_reject)data->reject) {
	case KW_RDMA_REJECT_VERSION:
		return kw_error_set(error, KW_E_REFUSED,
			"the proxy's rdma carrier has version %u, this agent's has %u: upgrade %s",
			data->version, KW_RDMA_VERSION,
			data->version > KW_RDMA_VERSION ? "this agent" : "the proxy");
	case KW_RDMA_REJECT_BUSY:
		return kw_error_set(error, KW_E_REFUSED,
			"the proxy has as many handshakes under way as there may be: try again");
	case KW_RDMA_REJECT_SHUTDOWN:
		return kw_error_set(error, KW_E_GONE, "the proxy is shutting down");
	case KW_RDMA_REJECT_DEVICE:
		return kw_error_set(error, KW_E_REFUSED,
			"the proxy's table is registered with another device than this address "
			"leads to: use the address it listens on");
	case KW_RDMA_REJECT_RESOURCES:
		return kw_error_set(error, KW_E_REFUSED,
			"the proxy could not make a queue pair (its log says why)");
	case KW_RDMA_REJECT_FOREIGN:
		return kw_error_set(error, KW_E_REFUSED,
			"the proxy does not know this kind of connection request");
	case KW_RDMA_REJECT_NONE:
		break;
	}
	return kw_error_set(
		error, KW_E_REFUSED, "the proxy rejected the connection (code %u)", data->reject);
}

static int rejected(struct kw_error *error, const struct kw_rdma_cm_event *cm_event)
{
	struct kw_rdma_private data;

	/* An iWARP device reports an errno here. */
	if (cm_event->status == REJ_INVALID_SERVICE_ID || cm_event->status == -ECONNREFUSED)
		return fault(error, KW_RDMA_NOBODY, KW_E_IO,
			"nobody listens on that port (is the proxy running, and is its rdma "
			"listener on this address?)");
	if (cm_event->status == REJ_STALE_CONNECTION)
		return fault(error, KW_RDMA_STALE, KW_E_IO,
			"the other host still remembers an older connection of this queue pair "
			"(stale connection): try again");
	if (kw_rdma_private_check(cm_event->data, cm_event->data_length) !=
		KW_RDMA_REJECT_FOREIGN) {
		memcpy(&data, cm_event->data, sizeof data);
		return our_reject(error, &data);
	}
	kw_rdma_count(KW_RDMA_REJECTED);
	if (cm_event->status == REJ_CONSUMER_DEFINED)
		return kw_error_set(error, KW_E_REFUSED,
			"rejected without a reason (does a keywake-proxy listen there?)");
	return kw_error_set(
		error, KW_E_IO, "rejected by the connection manager (reason %d)", cm_event->status);
}

/* The kernel reports an errno as a negative status; a status of other kinds is none. */
static int errno_of(int status)
{
	return status < 0 && status >= -ERRNO_MAX ? -status : EIO;
}

int kw_rdma_cm_error(struct kw_error *error, const struct kw_rdma_cm_event *cm_event)
{
	int errnum = errno_of(cm_event->status);

	switch (cm_event->type) {
	case RDMA_CM_EVENT_REJECTED:
		return rejected(error, cm_event);
	case RDMA_CM_EVENT_UNREACHABLE:
		kw_rdma_count(KW_RDMA_UNREACHABLE);
		return kw_error_errno(error, errnum,
			"the other host does not answer connection requests (unreachable)");
	case RDMA_CM_EVENT_ADDR_ERROR:
		kw_rdma_count(KW_RDMA_ADDRESS);
		return kw_error_errno(error, errnum,
			"no RDMA device leads to that address (`rdma link` shows the devices)");
	case RDMA_CM_EVENT_ROUTE_ERROR:
		kw_rdma_count(KW_RDMA_ADDRESS);
		return kw_error_errno(error, errnum, "no path to that address");
	case RDMA_CM_EVENT_CONNECT_ERROR:
		kw_rdma_count(KW_RDMA_CONNECT_ERROR);
		return kw_error_errno(error, errnum, "the connection could not be made");
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return fault(error, KW_RDMA_DEVICE_REMOVED, KW_E_IO, "the RDMA device was removed");
	case RDMA_CM_EVENT_ADDR_CHANGE:
		return fault(error, KW_RDMA_ADDRESS_CHANGED, KW_E_IO,
			"the address moved to another RDMA device (bonding, or a changed address)");
	case RDMA_CM_EVENT_DISCONNECTED:
		return fault(error, KW_RDMA_DISCONNECTED, KW_E_IO,
			"the other side closed the connection");
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return fault(error, KW_RDMA_DISCONNECTED, KW_E_IO, "the connection is over");
	default:
		kw_rdma_count(KW_RDMA_CONNECT_ERROR);
		return kw_error_set(error, KW_E_IO,
			"the connection manager said %d where nothing like it was expected",
			(int)cm_event->type);
	}
}

/* ---- sentences: completions and the device ---- */

int kw_rdma_completion_error(struct kw_error *error, enum ibv_wc_status status, const char *what)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		kw_rdma_count(KW_RDMA_RETRIES);
		return kw_error_set(error, KW_E_IO,
			"%s: the other host's device does not answer (transport retries exceeded)",
			what);
	case IBV_WC_RNR_RETRY_EXC_ERR:
		kw_rdma_count(KW_RDMA_RETRIES);
		return kw_error_set(
			error, KW_E_IO, "%s: the other side takes no messages (not ready)", what);
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		kw_rdma_count(KW_RDMA_ACCESS);
		return kw_error_set(error, KW_E_REFUSED,
			"%s: the other side's device refused access (revoked, or outside of what "
			"is registered)",
			what);
	case IBV_WC_WR_FLUSH_ERR:
		kw_rdma_count(KW_RDMA_BAD_COMPLETION);
		return kw_error_set(error, KW_E_IO, "%s: the connection was closed", what);
	default:
		kw_rdma_count(KW_RDMA_BAD_COMPLETION);
		return kw_error_set(error, KW_E_IO, "%s: %s (completion status %d)", what,
			ibv_wc_status_str(status), (int)status);
	}
}

int kw_rdma_async_error(struct kw_error *error, enum ibv_event_type event, const char *device)
{
	switch (event) {
	case IBV_EVENT_PORT_ERR:
		kw_rdma_count(KW_RDMA_PORT_DOWN);
		return kw_error_set(error, KW_E_IO, "the port of RDMA device %s went down", device);
	case IBV_EVENT_DEVICE_FATAL:
		kw_rdma_count(KW_RDMA_DEVICE_REMOVED);
		return kw_error_set(error, KW_E_IO, "RDMA device %s failed or was removed", device);
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_CQ_ERR:
		kw_rdma_count(KW_RDMA_BAD_COMPLETION);
		return kw_error_set(
			error, KW_E_IO, "RDMA device %s: %s", device, ibv_event_type_str(event));
	default:
		return 0;
	}
}

/* ---- locked memory ---- */

int kw_rdma_memlock_check(uint64_t needed, uint64_t used, uint64_t allowed, struct kw_error *error)
{
	if (allowed == UINT64_MAX || (used <= allowed && needed <= allowed - used))
		return 0;
	return kw_error_set(error, KW_E_CONFIG,
		"RDMA needs %" PRIu64 " bytes of locked memory (%" PRIu64
		" of them are locked already), and %" PRIu64
		" are allowed: set LimitMEMLOCK=infinity in the unit, or `ulimit -l unlimited`",
		used + needed, used, allowed);
}

static bool may_lock_anything(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	uint64_t capabilities = 0;
	char line[256];

	if (!file)
		return false;
	while (fgets(line, sizeof line, file))
		if (sscanf(line, "CapEff: %" SCNx64, &capabilities) == 1)
			break;
	fclose(file);
	return capabilities >> CAP_IPC_LOCK_BIT & 1;
}

uint64_t kw_rdma_memlock_allowed(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
		may_lock_anything())
		return UINT64_MAX;
	return limit.rlim_cur;
}

struct ibv_mr *kw_rdma_register(
	struct ibv_pd *pd, void *base, size_t length, int access, struct kw_error *error)
{
	struct ibv_mr *mr;

	if (kw_rdma_memlock_check(
		    length, atomic_load(&registered), kw_rdma_memlock_allowed(), error) != 0)
		return NULL;
	mr = ibv_reg_mr(pd, base, length, access);
	if (!mr) {
		kw_error_errno(error, errno,
			"%zu bytes cannot be registered with the RDMA device%s", length,
			errno == ENOMEM ? " (LimitMEMLOCK=infinity?)" : "");
		return NULL;
	}
	atomic_fetch_add(&registered, length);
	return mr;
}

void kw_rdma_unregister(struct ibv_mr *mr)
{
	size_t length;

	if (!mr)
		return;
	length = mr->length;
	/* It fails if the kernel has taken the device away, and the region with it. */
	(void)ibv_dereg_mr(mr);
	atomic_fetch_sub(&registered, length);
}
