/*
 * One connection to a proxy, as the daemon would make it, and some READs of its table.
 *
 *   ┌─────────┐ ready ┌────────────┐ superblock ┌───────────┐ directory ┌───────┐ small READs
 * ┌───────┐ │ DIALING │──────▶│ SUPERBLOCK │───────────▶│ DIRECTORY │──────────▶│ SMALL
 * │────────────▶│ LARGE │ └─────────┘       └────────────┘            └───────────┘ └───────┘
 * └───────┘ │ closed                                     the heartbeat moved ┌──────┐   large READs
 * │ ▼                                          ◀─────────────────────│ BEAT │◀───────────────┘ what
 * listens at that port?                   close                 └──────┘
 *
 * Small READs go one after the other and tell the latency. Large ones go several at once. Both are
 * bounded in number, bytes and time.
 */
#include "doctor/internal.h"

#include "base/clock.h"
#include "table/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_READS 100
#define SMALL_US UINT64_C(400000)
#define LARGE_BYTES (UINT64_C(1) << 20)
#define LARGE_AT_ONCE 4
#define LARGE_READS 64 /* of LARGE_BYTES, at most */
#define LARGE_US UINT64_C(300000)
#define BEAT_US UINT64_C(2000000) /* agents, too, take it for stopped after that */
#define BEAT_PAUSE_MS 10

enum phase { DIALING, SUPERBLOCK, DIRECTORY, SMALL, LARGE, BEAT, OVER };

struct kw_link_look {
	struct kw_doctor *doctor;
	char what[KW_DOCTOR_WHAT], text[300];
	struct kw_address address;
	struct kw_remote_options options;
	struct kw_remote *remote;
	uv_timer_t timer;
	enum phase phase;
	struct kw_error error; /* its code is KW_OK if nothing failed */
	struct kw_port_visit port;
	struct kw_view view;
	struct kw_extent extent; /* the first of the directory */
	struct kw_remote_read reads[LARGE_AT_ONCE];
	uint8_t *buffer; /* LARGE_AT_ONCE times LARGE_BYTES */
	struct kw_superblock block;
	uint64_t dialled_us, phase_us, asked_us;
	uint64_t took_us[SMALL_READS];
	int started, out; /* of large READs */
	bool based;       /* BEAT: the heartbeat to compare with is read */
	bool barred;      /* our own files are wrong: only the port is looked at */
	struct kw_link_facts facts;
};

static void next_phase(struct kw_link_look *look, enum phase phase);

static void fail(struct kw_link_look *look, const struct kw_error *error)
{
	if (look->error.code == KW_OK)
		look->error = *error;
	kw_remote_close(look->remote);
}

static void start(
	struct kw_link_look *look, struct kw_remote_read *read, const struct kw_remote_read *wanted)
{
	*read = *wanted;
	read->arg = look;
	kw_remote_read(look->remote, &read, 1);
}

/* ---- the superblock, again and again ---- */

static void read_superblock(struct kw_link_look *look);

static void take_small(struct kw_link_look *look)
{
	const uint64_t now = kw_clock_us();

	look->took_us[look->facts.reads++] = now - look->asked_us;
	if (look->facts.reads == SMALL_READS || now - look->phase_us >= SMALL_US)
		next_phase(look, LARGE);
	else
		read_superblock(look);
}

static void on_pause(uv_timer_t *timer)
{
	struct kw_link_look *look = timer->data;

	if (look->phase == BEAT)
		read_superblock(look);
}

/* A heartbeat was written just before we saw it for the first time. */
static void take_beat(struct kw_link_look *look)
{
	const uint64_t now = kw_clock_us();

	if (!look->based) {
		look->based = true;
		look->facts.superblock = look->block;
	}
	if (look->block.heartbeat_us != look->facts.superblock.heartbeat_us) {
		look->facts.beats = true;
		look->facts.skew_us = (int64_t)(look->block.heartbeat_us - kw_wall_us());
		look->facts.superblock = look->block;
		next_phase(look, OVER);
	} else if (now - look->phase_us >= BEAT_US) {
		next_phase(look, OVER);
	} else {
		uv_timer_start(&look->timer, on_pause, BEAT_PAUSE_MS, 0);
	}
}

static void on_superblock(struct kw_remote_read *read, const struct kw_error *error)
{
	struct kw_link_look *look = read->arg;
	struct kw_error torn;

	if (error)
		return;
	if (kw_superblock_check(&look->block, &torn)) {
		/* Torn: the proxy writes it just now. */
		if (torn.code == KW_E_CORRUPT && kw_clock_us() - look->phase_us < BEAT_US)
			read_superblock(look);
		else
			fail(look, &torn);
		return;
	}
	if (look->phase == SMALL) {
		take_small(look);
	} else if (look->phase == BEAT) {
		take_beat(look);
	} else {
		look->facts.superblock = look->block;
		look->facts.superblock_told = true;
		next_phase(look, DIRECTORY);
	}
}

static void read_superblock(struct kw_link_look *look)
{
	look->asked_us = kw_clock_us();
	start(look, &look->reads[0],
		&(struct kw_remote_read){.offset = KW_SUPERBLOCK_OFFSET,
			.length = sizeof look->block,
			.buffer = (uint8_t *)&look->block,
			.done = on_superblock});
}

/* ---- the directory, which says what may be read ---- */

static void on_directory(struct kw_remote_read *read, const struct kw_error *error)
{
	struct kw_link_look *look = read->arg;
	struct kw_error torn;

	if (error)
		return;
	/* Another publication since: what is there is in the way of large READs alone. */
	if (kw_view_take(&look->view, &look->facts.superblock, &torn) == KW_OK &&
		look->view.directory.header->extents > 0) {
		look->extent = look->view.directory.extents[0];
		kw_remote_set_extents(look->remote, look->view.directory.extents,
			(int)look->view.directory.header->extents);
	}
	next_phase(look, SMALL);
}

static void read_directory(struct kw_link_look *look)
{
	const struct kw_superblock *superblock = &look->facts.superblock;

	if (superblock->directory_bytes == 0) {
		next_phase(look, SMALL);
		return;
	}
	start(look, &look->reads[0],
		&(struct kw_remote_read){.offset = superblock->directory_offset,
			.length = superblock->directory_bytes,
			.buffer = kw_view_sink(&look->view, superblock),
			.done = on_directory});
}

/* ---- large READs ---- */

static void start_large(struct kw_link_look *look);

static void on_large(struct kw_remote_read *read, const struct kw_error *error)
{
	struct kw_link_look *look = read->arg;

	look->out--;
	if (error)
		return;
	look->facts.bytes += read->length;
	look->facts.took_us = kw_clock_us() - look->phase_us;
	start_large(look);
}

/* Some at once, around the first extent, until bytes or time are used up. */
static void start_large(struct kw_link_look *look)
{
	const uint64_t length =
		look->extent.length < LARGE_BYTES ? look->extent.length : LARGE_BYTES;
	const uint64_t places = length > 0 ? look->extent.length / length : 0;

	while (places > 0 && look->out < LARGE_AT_ONCE && look->started < LARGE_READS &&
		kw_clock_us() - look->phase_us < LARGE_US) {
		/* They end in order, so the one that ended before is free. */
		int at = look->started % LARGE_AT_ONCE;
		uint64_t place = (uint64_t)look->started % places;

		look->started++;
		look->out++;
		start(look, &look->reads[at],
			&(struct kw_remote_read){.offset = look->extent.offset + place * length,
				.length = length,
				.buffer = look->buffer + (uint64_t)at * LARGE_BYTES,
				.done = on_large});
	}
	if (look->out == 0)
		next_phase(look, BEAT);
}

/* ---- from phase to phase ---- */

static void next_phase(struct kw_link_look *look, enum phase phase)
{
	look->phase = phase;
	look->phase_us = kw_clock_us();
	switch (phase) {
	case SUPERBLOCK:
	case SMALL:
	case BEAT:
		read_superblock(look);
		break;
	case DIRECTORY:
		read_directory(look);
		break;
	case LARGE:
		look->buffer = kw_alloc(LARGE_AT_ONCE * LARGE_BYTES);
		start_large(look);
		break;
	case OVER:
	case DIALING:
		kw_remote_close(look->remote);
		break;
	}
}

static void on_ready(void *arg, const struct kw_remote_info *info)
{
	struct kw_link_look *look = arg;

	look->facts.connect_us = kw_clock_us() - look->dialled_us;
	look->facts.scoped = info->scoped;
	look->facts.rdma = info->carrier == KW_CARRIER_RDMA;
	snprintf(look->facts.device, sizeof look->facts.device, "%s", info->device);
	look->facts.mtu = kw_host_mtu(info->device);
	next_phase(look, SUPERBLOCK);
}

/* The agent needs the whole table, and a gateway can do with a part: the daemon's log tells. */
static int on_scoped(void *arg, const struct kw_scope *scope, struct kw_error *error)
{
	return KW_OK;
}

static void look_at_port(struct kw_link_look *look)
{
	char port[8];

	if (look->address.carrier == KW_CARRIER_SHM || look->address.carrier == KW_CARRIER_RDMA) {
		kw_doctor_over(look->doctor);
		return;
	}
	snprintf(port, sizeof port, "%u", look->address.port);
	kw_port_visit_begin(&look->port, look->doctor, look->address.host, port);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct kw_link_look *look = handle->data;

	if (look->error.code == KW_OK || look->error.code == KW_E_REFUSED)
		kw_doctor_over(look->doctor);
	else
		look_at_port(look);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_link_look *look = arg;

	if (look->phase != OVER && look->error.code == KW_OK)
		look->error = *why;
	look->phase = OVER;
	kw_remote_free(look->remote);
	look->remote = NULL;
	uv_close((uv_handle_t *)&look->timer, on_timer_closed);
}

struct kw_link_look *kw_link_look_new(
	struct kw_doctor *doctor, const char *address, const struct kw_remote_options *options)
{
	struct kw_link_look *look = kw_zalloc(sizeof *look);

	look->doctor = doctor;
	look->barred = !options;
	if (options)
		look->options = *options;
	look->options.connect_timeout_ms = look->options.read_timeout_ms = KW_DOCTOR_PROBE_MS;
	look->options.scoped = on_scoped;
	snprintf(look->text, sizeof look->text, "%s", address);
	snprintf(look->what, sizeof look->what, "proxy %.70s", address);
	return look;
}

void kw_link_look_begin(struct kw_link_look *look)
{
	const struct kw_remote_handlers handlers = {
		.ready = on_ready, .closed = on_closed, .arg = look};

	look->facts.what = look->what;
	look->dialled_us = kw_clock_us();
	if (look->barred && kw_address_parse(look->text, &look->address, NULL) == KW_OK) {
		look->phase = OVER;
		look_at_port(look);
		return;
	}
	if (kw_address_parse(look->text, &look->address, &look->error) ||
		kw_remote_open(&look->doctor->loop, &look->address, &look->options, &handlers,
			&look->remote, &look->error)) {
		look->remote = NULL;
		look->phase = OVER;
		kw_doctor_over(look->doctor);
		return;
	}
	look->facts.carrier = kw_carrier_name(look->address.carrier);
	uv_timer_init(&look->doctor->loop, &look->timer);
	look->timer.data = look;
}

void kw_link_look_free(struct kw_link_look *look)
{
	kw_view_close(&look->view);
	free(look->buffer);
	free(look);
}

bool kw_link_look_is_over(const struct kw_link_look *look)
{
	return look->phase == OVER;
}

const char *kw_link_look_what(const struct kw_link_look *look)
{
	return look->what;
}

const struct kw_superblock *kw_link_look_superblock(const struct kw_link_look *look)
{
	return look->facts.superblock_told ? &look->facts.superblock : NULL;
}

/* ---- the findings ---- */

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static const char *remedy_for(enum kw_port_kind kind)
{
	switch (kind) {
	case KW_PORT_REDIS:
		return "proxy = an address that the proxy has in `listen`; a server belongs into "
		       "redis.address";
	case KW_PORT_HTTP:
		return "proxy = an address that the proxy has in `listen`; that of http.listen is "
		       "for monitoring";
	case KW_PORT_TLS:
		return "proxy = tcp+tls://host:port, with tls.ca";
	default:
		return "proxy = an address that the proxy has in `listen`";
	}
}

/* The connection's own sentences end in many ways. NULL: with the remedy. */
static const char *remedy_for_code(enum kw_code code)
{
	switch (code) {
	case KW_E_IO:
	case KW_E_GONE:
		return "start the proxy, or name an address that it has in `listen`";
	case KW_E_TIMEOUT:
		return "see whether a firewall is in the way, and systemctl status of the proxy";
	case KW_E_REFUSED:
		return "auth.secret_file, auth.key_id and tls.* as the proxy has them; its log "
		       "names the reason, too";
	default:
		return NULL;
	}
}

/* Only its port was looked at. */
static void judge_port(const struct kw_link_look *look, struct kw_findings *findings)
{
	const struct kw_check check = {look->what, "connection"};

	if (look->port.reached)
		kw_finding_add(findings, KW_FINDING_OK, check,
			"something listens there; no READ was tried, because our own files are "
			"wrong");
	else if (look->port.host[0])
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WRONG, check, "nobody listens there"),
			"%s", remedy_for_code(KW_E_IO));
}

static void judge_failure(const struct kw_link_look *look, struct kw_findings *findings)
{
	const struct kw_check check = {look->what, "connection"};
	const enum kw_port_kind kind = look->port.kind;

	if (kind == KW_PORT_UNKNOWN && look->barred) {
		judge_port(look, findings);
		return;
	}
	if (kind == KW_PORT_UNKNOWN) {
		kw_finding_of(findings, check, &look->error, remedy_for_code(look->error.code));
		return;
	}
	kw_finding_mend(kw_finding_add(findings, KW_FINDING_WRONG, check,
				"%s is no keywake-proxy but %s", look->text, kw_port_name(kind)),
		"%s", remedy_for(kind));
}

void kw_link_look_judge(const struct kw_link_look *look, struct kw_findings *findings)
{
	struct kw_link_facts facts = look->facts;
	uint64_t took_us[SMALL_READS];

	if (look->error.code != KW_OK || look->barred) {
		judge_failure(look, findings);
		return;
	}
	if (facts.reads > 0) {
		memcpy(took_us, look->took_us, sizeof took_us);
		qsort(took_us, facts.reads, sizeof *took_us, compare);
		facts.median_us = took_us[facts.reads / 2];
		facts.slowest_us = took_us[facts.reads - 1];
	}
	kw_judge_link(&facts, findings);
}
