/*
 * The proxy's end of tcp before an agent that sends anything: what comes back is replies to what
 * was asked, with the bytes of the memory and nothing beyond them, then perhaps one farewell; no
 * request moves the peer out of its bounds.
 *
 * The input is a list of steps: requests with any offset and length, reports, raw bytes; how much
 * of the replies the agent reads in between.
 */
#include "fuzz.h"

#include "base/buffer.h"
#include "remote/tcp/peer.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEPTH 4
#define EXTENT (UINT64_C(1) << 20)
#define ASKED_MAX 1024
#define TURNS_MAX 10000

static struct kw_memory memory;

static struct {
	struct kw_tcp_peer *peer;
	int fd; /* the agent's end */
	struct kw_frame_read asked[ASKED_MAX];
	int asked_count, answered;
	bool over; /* a farewell came: nothing may follow */
	bool raw;  /* bytes of the input's own were sent: the peer may take them for requests */
	struct kw_buffer in;
} world;

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

static void make_memory(void)
{
	struct kw_extent extent = {.length = EXTENT};
	struct kw_error error;

	must(kw_memory_init(&memory, 2 * EXTENT, &error) == 0);
	must(kw_memory_extend(&memory, &extent, &error) == 0);
	for (uint64_t i = 0; i < EXTENT; i++)
		memory.base[i] = pattern(i);
}

static void check_reply(const struct kw_frame_reply *header, const uint8_t *bytes)
{
	const struct kw_frame_read *asked = &world.asked[world.answered];

	if (header->status != KW_FRAME_OK) {
		must(header->status < KW_FRAME_STATUSES && header->id == 0 && header->length == 0);
		world.over = true;
		return;
	}
	must(header->length > 0 && header->length <= EXTENT);
	if (!world.raw) {
		must(world.answered < world.asked_count);
		must(header->id == asked->id && header->length == asked->length);
		must(memcmp(bytes, memory.base + asked->offset, header->length) == 0);
	}
	world.answered++;
}

/* Read up to `most` bytes; whole replies are checked. */
static size_t hear(size_t most)
{
	ssize_t got = recv(world.fd, kw_buffer_reserve(&world.in, most), most, MSG_DONTWAIT);

	if (got > 0)
		kw_buffer_filled(&world.in, (size_t)got);
	while (kw_buffer_length(&world.in) >= sizeof(struct kw_frame_reply)) {
		struct kw_frame_reply header;

		must(!world.over);
		memcpy(&header, kw_buffer_bytes(&world.in), sizeof header);
		must(header.magic == KW_REPLY_MAGIC);
		if (kw_buffer_length(&world.in) < sizeof header + header.length)
			break;
		check_reply(&header, kw_buffer_bytes(&world.in) + sizeof header);
		kw_buffer_consume(&world.in, sizeof header + header.length);
	}
	return got > 0 ? (size_t)got : 0;
}

static void say(const void *bytes, size_t length)
{
	(void)!send(world.fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void turn(bool readable)
{
	if (!kw_tcp_peer_over(world.peer))
		kw_tcp_peer_turn(world.peer, &memory, readable);
}

/* Small offsets and lengths mostly; sometimes any 64 bits. */
static void ask(bool any)
{
	uint64_t offset = any ? take(8) : take(3), length = any ? take(8) : take(3);
	struct kw_frame_read frame;

	if (world.asked_count == ASKED_MAX)
		return;
	kw_frame_encode_read(&frame, take(1), offset, length);
	world.asked[world.asked_count++] = frame;
	say(&frame, sizeof frame);
}

static void say_raw(void)
{
	size_t length = take(1) % 80 + 1;

	if (length > size)
		length = size;
	world.raw = true;
	say(data, length);
	data += length;
	size -= length;
}

static void report(void)
{
	struct kw_frame_report frame;

	kw_frame_encode_report(&frame, &(struct kw_remote_progress){.passed = take(1)});
	frame.state[take(1) % sizeof frame.state] = (char)take(1);
	say(&frame, sizeof frame);
}

static void step(void)
{
	switch (take(1) % 8) {
	case 0:
	case 1:
		ask(false);
		break;
	case 2:
		ask(true);
		break;
	case 3:
		report();
		break;
	case 4:
		say_raw();
		break;
	case 5:
		(void)hear(take(2) + 1);
		turn(false);
		break;
	default:
		turn(true);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	int pair[2];

	if (memory.fd <= 0)
		make_memory();
	data = bytes;
	size = length;
	memset(&world, 0, sizeof world);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
	world.fd = pair[1];
	world.peer = kw_tcp_peer_new(kw_wire_plain(pair[0]),
		&(struct kw_tcp_client){.depth = DEPTH}, &(struct kw_tcp_tools){0});
	while (size > 0) {
		step();
		must(world.peer->count <= DEPTH);
	}
	for (int i = 0; i < TURNS_MAX && !kw_tcp_peer_over(world.peer) && world.peer->count; i++) {
		turn(true);
		(void)hear(1 << 20);
	}
	while (hear(1 << 20) > 0)
		continue;
	if (!kw_tcp_peer_over(world.peer)) {
		must(world.peer->count == 0);
		close(world.fd);
		world.fd = -1;
		turn(true);
		/* Frames can be left that this turn took instead of the end. */
		for (int i = 0; i < TURNS_MAX && !kw_tcp_peer_over(world.peer); i++)
			turn(true);
		must(kw_tcp_peer_over(world.peer));
	}
	if (world.fd >= 0)
		close(world.fd);
	kw_tcp_conn_free(&world.peer->shown);
	kw_buffer_close(&world.in);
	return 0;
}

size_t kw_fuzz_seed(unsigned n, uint8_t *to, size_t most)
{
	static const struct kw_fuzz_bytes seeds[] = {
		KW_FUZZ_BYTES("\x00\x10\x00\x00\x40\x00\x00\x01\x06\x05\x40\x00"),
		KW_FUZZ_BYTES("\x00\x00\x00\x00\x00\x00\x10\x01\x00\x00\x00\x0c\x00\x00\x03\x02\x06"
			      "\x06\x05\xff\xff\x06\x05\xff\xff\x03\x07\x00\x41\x06"),
		KW_FUZZ_BYTES("\x02\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x00\x00\x00\x00\x00"
			      "\x01\x06"),
		KW_FUZZ_BYTES("\x00\x00\x00\x00\x01\x00\x00\x01\x00\x00\x00\x00\x01\x00\x00\x01\x00"
			      "\x00\x00\x00\x01\x00\x00\x01\x00\x00\x00\x00\x01\x00\x00\x01\x00\x00"
			      "\x00\x00\x01\x00\x00\x01\x06"),
		KW_FUZZ_BYTES("\x04\x10GET / HTTP/1.1\r\n\x06"),
	};

	return kw_fuzz_copy_seed(seeds, sizeof seeds / sizeof *seeds, n, to, most);
}
