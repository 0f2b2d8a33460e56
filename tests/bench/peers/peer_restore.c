/*
 * peer-restore FROM TO: fetch every key of database 0 of FROM into memory, then time how long TO
 * takes to accept them all by RESTORE ... REPLACE, with 4 MiB unacknowledged. The commands are
 * encoded within the time taken, as any replica must do.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WINDOW_BYTES ((size_t)4 * 1024 * 1024)

/* Encoded ahead of what the socket takes. */
#define AHEAD_BYTES ((size_t)1024 * 1024)

struct record {
	size_t at; /* in bytes: key, payload behind it */
	size_t key_length, payload_length;
	long long expires_ms;
};

struct load {
	struct peer_bytes bytes, records;
	size_t payload_bytes;
	size_t count;
	size_t sent, acknowledged; /* records */
	size_t open_bytes;         /* of those between */
};

static void keep(void *arg, const struct peer_item *item)
{
	struct load *load = arg;
	struct record record = {
		load->bytes.end, item->key_length, item->payload_length, item->expires_ms};

	peer_append(&load->bytes, item->key, item->key_length);
	peer_append(&load->bytes, item->payload, item->payload_length);
	peer_append(&load->records, &record, sizeof record);
	load->payload_bytes += item->payload_length;
	load->count++;
}

static const struct record *record_at(const struct load *load, size_t index)
{
	return (const struct record *)(const void *)load->records.data + index;
}

static size_t weight(const struct record *record)
{
	return record->key_length + record->payload_length;
}

static void encode(struct peer *to, const struct load *load, const struct record *record)
{
	const char *key = load->bytes.data + record->at;
	char expires[24];
	int digits = snprintf(expires, sizeof expires, "%lld", record->expires_ms);

	peer_array(to, record->expires_ms ? 6 : 5);
	peer_bulk(to, "RESTORE", 7);
	peer_bulk(to, key, record->key_length);
	peer_bulk(to, expires, (size_t)digits);
	peer_bulk(to, key + record->key_length, record->payload_length);
	peer_bulk(to, "REPLACE", 7);
	if (record->expires_ms)
		peer_bulk(to, "ABSTTL", 6);
}

static void encode_ahead(struct peer *to, struct load *load)
{
	while (load->sent < load->count && to->out.end - to->out.start < AHEAD_BYTES) {
		const struct record *record = record_at(load, load->sent);

		if (load->open_bytes > 0 && load->open_bytes + weight(record) > WINDOW_BYTES)
			return;
		encode(to, load, record);
		load->open_bytes += weight(record);
		load->sent++;
	}
}

static bool write_some(struct peer *to)
{
	struct peer_bytes *out = &to->out;
	ssize_t length;

	if (out->start == out->end)
		return false;
	length = send(to->fd, out->data + out->start, out->end - out->start, MSG_NOSIGNAL);
	if (length < 0 && errno != EAGAIN)
		peer_die("write: %s", strerror(errno));
	if (length <= 0)
		return false;
	out->start += (size_t)length;
	if (out->start == out->end)
		out->start = out->end = 0;
	return true;
}

/* Count the whole "+OK\r\n" that are there; anything else ends the program. */
static void acknowledge(struct peer *to, struct load *load)
{
	struct peer_bytes *in = &to->in;
	const char *end;

	while ((end = memchr(in->data + in->start, '\n', in->end - in->start))) {
		size_t next = (size_t)(end - in->data) + 1;

		if (in->data[in->start] != '+')
			peer_die("RESTORE: %.*s", (int)(next - in->start), in->data + in->start);
		in->start = next;
		load->open_bytes -= weight(record_at(load, load->acknowledged));
		load->acknowledged++;
	}
	if (in->start == in->end)
		in->start = in->end = 0;
}

static bool read_some(struct peer *to, struct load *load)
{
	struct peer_bytes *in = &to->in;
	ssize_t length;

	peer_reserve(in, 4096);
	length = read(to->fd, in->data + in->end, in->room - in->end);
	if (length == 0)
		peer_die("the server closed");
	if (length < 0 && errno != EAGAIN)
		peer_die("read: %s", strerror(errno));
	if (length < 0)
		return false;
	in->end += (size_t)length;
	acknowledge(to, load);
	return true;
}

static void restore(struct peer *to, struct load *load)
{
	fcntl(to->fd, F_SETFL, fcntl(to->fd, F_GETFL) | O_NONBLOCK);
	while (load->acknowledged < load->count) {
		struct pollfd wait = {.fd = to->fd, .events = POLLIN};
		bool moved;

		encode_ahead(to, load);
		moved = write_some(to);
		moved |= read_some(to, load);
		if (moved)
			continue;
		if (to->out.start < to->out.end)
			wait.events |= POLLOUT;
		poll(&wait, 1, -1);
	}
}

int main(int argc, char **argv)
{
	struct load load = {0};
	struct peer from, to;
	double begin;

	if (argc != 3)
		peer_die("usage: peer-restore FROM TO (each unix:///path or tcp://host:port)");
	peer_connect(&from, argv[1]);
	peer_connect(&to, argv[2]);
	peer_walk(&from, true, keep, &load);
	peer_close(&from);
	begin = peer_now();
	restore(&to, &load);
	printf("{\"keys\": %zu, \"bytes\": %zu, \"seconds\": %.6f}\n", load.count,
		load.payload_bytes, peer_now() - begin);
	peer_close(&to);
	free(load.bytes.data);
	free(load.records.data);
	return 0;
}
