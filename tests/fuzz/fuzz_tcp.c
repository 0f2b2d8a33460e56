/*
 * The agent's end of tcp before a proxy that says anything: each READ is told back exactly once,
 * its buffer alone is written to, a READ that ended well has the bytes that were sent for it, and
 * the connection comes to an end when the proxy goes.
 *
 * The input is a list of steps: READs, honest replies whole or in part, raw bytes, turns of the
 * loop. Before that comes an honest handshake, or raw bytes in its place. A socket pair stands in
 * for the dialling (the linker's --wrap), so no ports are used up.
 */
#include "fuzz.h"

#include "remote/exchange.h"
#include "remote/frame.h"
#include "remote/tcp/dial.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define READS_MAX 32
#define STEPS_MAX 256
#define GUARD 8
#define EXTENT 65536
#define TURNS_MAX 1000

struct one_read {
	struct kw_remote_read read;
	uint8_t *bytes;
	int told;
};

static struct {
	uv_loop_t loop;
	struct kw_remote *remote;
	int fd; /* the proxy's end */
	int ready, closed;
	struct one_read reads[READS_MAX];
	int count;
	struct kw_frame asked[READS_MAX]; /* not answered yet */
	int asked_first, asked_count;
	uint8_t in[8192]; /* of the agent's frames */
	size_t in_length;
	bool lied; /* what follows need not be the reply that is due */
} world;

/* What both ends take the socket pair for. */
static const struct kw_channel channel = {.kind = KW_CHANNEL_TCP, .host = {.port = 1}};

static const uint8_t *data;
static size_t size;

static uint8_t pattern(uint64_t offset)
{
	return (uint8_t)(offset * 37 + (offset >> 8));
}

static uint64_t take(size_t width)
{
	uint64_t value = 0;

	if (width > size)
		width = size;
	memcpy(&value, data, width);
	data += width;
	size -= width;
	return value;
}

/* One address, to which the first turn is connected. */
void __wrap_kw_tcp_dial_turn(struct kw_tcp_dial *dial);
void __wrap_kw_tcp_dial_failed(struct kw_tcp_dial *dial, const struct kw_error *why);
void __wrap_kw_tcp_dial_done(struct kw_tcp_dial *dial);

void __wrap_kw_tcp_dial_turn(struct kw_tcp_dial *dial)
{
	uv_poll_t *poll;
	int pair[2];

	if (world.fd >= 0)
		return;
	poll = calloc(1, sizeof *poll);
	must(poll != NULL);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
	world.fd = pair[1];
	must(uv_poll_init(&world.loop, poll, pair[0]) == 0);
	poll->data = dial->remote;
	dial->handlers.connected(dial->remote, pair[0], poll, &channel);
}

void __wrap_kw_tcp_dial_failed(struct kw_tcp_dial *dial, const struct kw_error *why)
{
	dial->handlers.dropped(dial->remote);
	kw_remote_fail(dial->remote, why);
}

void __wrap_kw_tcp_dial_done(struct kw_tcp_dial *dial)
{
	(void)dial;
}

static void on_ready(void *arg, const struct kw_remote_info *info)
{
	const struct kw_extent extent = {.length = EXTENT};

	(void)arg;
	must(info->depth > 0);
	world.ready++;
	kw_remote_set_extents(world.remote, &extent, 1);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	(void)arg;
	must(why->code == KW_OK || why->text[0] != 0);
	world.closed++;
}

static void on_done(struct kw_remote_read *read, const struct kw_error *error)
{
	struct one_read *one = read->arg;

	must(++one->told == 1 && !world.closed);
	for (int i = 0; i < GUARD; i++)
		must(one->bytes[i] == 0xee && read->buffer[read->length + (uint64_t)i] == 0xee);
	if (error)
		must(error->text[0] != 0);
	else if (!world.lied)
		for (uint64_t i = 0; i < read->length; i++)
			must(read->buffer[i] == pattern(read->offset + i));
}

static void turn(void)
{
	for (int i = 0; i < 3; i++)
		uv_run(&world.loop, UV_RUN_NOWAIT);
}

static void start_read(void)
{
	struct one_read *one = &world.reads[world.count];
	struct kw_remote_read *read = &one->read;
	uint64_t offset = take(2), length = take(2) % 20000 + 1;

	if (world.count == READS_MAX || world.closed)
		return;
	world.count++;
	one->bytes = malloc(length + 2 * GUARD);
	must(one->bytes != NULL);
	memset(one->bytes, 0xee, length + 2 * GUARD);
	*read = (struct kw_remote_read){.offset = offset,
		.length = length,
		.buffer = one->bytes + GUARD,
		.done = on_done,
		.arg = one};
	kw_remote_read(world.remote, &read, 1);
}

/* What the agent sent: only frames that a proxy takes. */
static void hear(void)
{
	ssize_t got = recv(world.fd, world.in + world.in_length, sizeof world.in - world.in_length,
		MSG_DONTWAIT);
	size_t taken, at = 0;

	if (got > 0)
		world.in_length += (size_t)got;
	for (;;) {
		struct kw_frame frame;

		must(kw_frame_take(world.in + at, world.in_length - at, &taken, &frame, NULL) == 0);
		if (taken == 0)
			break;
		at += taken;
		if (frame.op != KW_FRAME_READ)
			continue;
		must(frame.offset + frame.length <= EXTENT && world.asked_count < READS_MAX);
		world.asked[(world.asked_first + world.asked_count++) % READS_MAX] = frame;
	}
	world.in_length -= at;
	memmove(world.in, world.in + at, world.in_length);
}

static void say(const void *bytes, size_t length)
{
	(void)!send(world.fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The reply that is due, in two parts with a turn between them. */
static void reply_honestly(size_t cut)
{
	static uint8_t reply[sizeof(struct kw_frame_reply) + EXTENT];
	const struct kw_frame *frame = &world.asked[world.asked_first];
	struct kw_frame_reply header;
	size_t length;

	hear();
	if (world.asked_count == 0)
		return;
	kw_frame_encode_reply(&header, KW_FRAME_OK, frame->id, frame->length);
	memcpy(reply, &header, sizeof header);
	for (uint64_t i = 0; i < frame->length; i++)
		reply[sizeof header + i] = pattern(frame->offset + i);
	length = sizeof header + frame->length;
	world.asked_first = (world.asked_first + 1) % READS_MAX;
	world.asked_count--;
	cut %= length;
	say(reply, cut);
	turn();
	say(reply + cut, length - cut);
}

static void say_raw(void)
{
	size_t length = take(1) % 64 + 1;

	if (length > size)
		length = size;
	world.lied = true;
	say(data, length);
	data += length;
	size -= length;
}

/* The reply that is due with a field of its header altered. */
static void reply_falsely(void)
{
	struct kw_frame_reply header;
	uint8_t at = (uint8_t)take(1), mask = (uint8_t)take(1);

	hear();
	if (world.asked_count == 0)
		return;
	world.lied = true;
	kw_frame_encode_reply(&header, KW_FRAME_OK, world.asked[world.asked_first].id,
		world.asked[world.asked_first].length);
	((uint8_t *)&header)[at % sizeof header] ^= mask;
	say(&header, sizeof header);
}

static void greet_honestly(void)
{
	static const uint8_t nonce[KW_NONCE_BYTES] = {7};
	const struct kw_handshake_options options = {
		.layout_version = KW_LAYOUT_VERSION, .depth = 8, .nonce = nonce};
	const struct kw_handshake_facts facts = {
		.epoch = 9, .depth = 4, .extent = {.length = EXTENT}};
	struct kw_exchange exchange = {.give_fd = -1, .taken_fd = -1};
	struct kw_wire wire = kw_wire_plain(world.fd);
	struct kw_error error;

	kw_handshake_init_proxy(&exchange.handshake, &options);
	kw_handshake_set_channel(&exchange.handshake, &channel);
	for (int i = 0; i < TURNS_MAX && !world.ready; i++) {
		if (kw_exchange_step(&exchange, &wire, &error) == KW_EXCHANGE_DECIDE)
			kw_handshake_welcome(&exchange.handshake, &facts);
		turn();
	}
	must(world.ready == 1);
}

static void step(void)
{
	switch (take(1) % 8) {
	case 0:
	case 1:
		start_read();
		break;
	case 2:
	case 3:
		reply_honestly(take(2));
		break;
	case 4:
		say_raw();
		break;
	case 5:
		reply_falsely();
		break;
	case 6:
		kw_remote_report(world.remote,
			&(struct kw_remote_progress){.passed = take(1), .state = "warm"});
		break;
	default:
		turn();
	}
}

static void begin(void)
{
	const struct kw_address address = {
		.carrier = KW_CARRIER_TCP, .host = "127.0.0.1", .port = 1};
	const struct kw_remote_options options = {
		.agent_name = "fuzzed", .depth = 4, .allow_insecure = true};
	const struct kw_remote_handlers handlers = {on_ready, on_closed, NULL};
	struct kw_error error;

	memset(&world, 0, sizeof world);
	world.fd = -1;
	must(uv_loop_init(&world.loop) == 0);
	must(kw_remote_open(&world.loop, &address, &options, &handlers, &world.remote, &error) ==
		0);
	for (int i = 0; i < TURNS_MAX && world.fd < 0; i++)
		turn();
	must(world.fd >= 0);
}

static void end(void)
{
	close(world.fd);
	for (int i = 0; i < TURNS_MAX && !world.closed; i++)
		turn();
	must(world.closed == 1);
	for (int i = 0; i < world.count; i++) {
		must(world.reads[i].told == 1);
		free(world.reads[i].bytes);
	}
	kw_remote_free(world.remote);
	must(uv_run(&world.loop, UV_RUN_DEFAULT) == 0);
	must(uv_loop_close(&world.loop) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	data = bytes;
	size = length;
	begin();
	if (take(1) & 1) {
		while (size > 0) {
			say_raw();
			turn();
		}
	} else {
		greet_honestly();
	}
	for (int i = 0; i < STEPS_MAX && size > 0; i++)
		step();
	end();
	return 0;
}

size_t kw_fuzz_seed(unsigned n, uint8_t *to, size_t most)
{
	static const struct kw_fuzz_bytes seeds[] = {
		KW_FUZZ_BYTES("\x00\x00\x10\x00\x40\x00\x07\x02\x05\x00\x07"),
		KW_FUZZ_BYTES("\x00\x00\x00\x00\x00\x20\x00\x09\x00\x10\x00\x07\x02\x00\x00\x03\x18"
			      "\x00\x06\x01\x07"),
		KW_FUZZ_BYTES("\x00\x00\x00\x00\x08\x00\x07\x05\x04\x01\x07"),
		KW_FUZZ_BYTES("\x00\x00\xff\xff\xff\xff\x07\x04\x18KWR1\x05\x00\x00\x00\x00\x00\x00"
			      "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07"),
		KW_FUZZ_BYTES("\x01\x20HTTP/1.1 400 Bad Request\r\n"),
	};

	return kw_fuzz_copy_seed(seeds, sizeof seeds / sizeof *seeds, n, to, most);
}
