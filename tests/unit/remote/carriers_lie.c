#include "carriers.h"

#include "remote/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* A raw agent behind its handshake: what it sends no code of ours has checked. */
static int raw_agent(struct fixture *fixture, uint32_t depth)
{
	const struct raw_options options = {.depth = depth};
	struct kw_error error;
	int code, fd = raw_connect(fixture, &options, &code, &error);

	assert_int_equal(code, 0);
	WAIT(fixture, fixture->joined == 1);
	return fd;
}

static void send_all(int fd, const void *bytes, size_t length)
{
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

/* What the proxy says until it closes. */
static size_t receive_all(int fd, uint8_t *bytes, size_t size)
{
	size_t length = 0;
	ssize_t got;

	while (length < size && (got = recv(fd, bytes + length, size - length, 0)) > 0)
		length += (size_t)got;
	return length;
}

static void expect_end(
	struct fixture *fixture, int fd, enum kw_frame_status status, const char *why)
{
	struct kw_frame_reply reply;
	uint8_t bytes[256];
	size_t length;

	WAIT(fixture, fixture->left == 1);
	if (!strstr(fixture->why_left, why))
		fail_msg("\"%s\" lacks \"%s\"", fixture->why_left, why);
	length = receive_all(fd, bytes, sizeof bytes);
	/* A farewell or nothing, and not one byte of memory. */
	assert_true(length == 0 || length == sizeof reply);
	if (length > 0) {
		memcpy(&reply, bytes, sizeof reply);
		assert_int_equal(reply.magic, KW_REPLY_MAGIC);
		assert_int_equal(reply.status, status);
		assert_int_equal(reply.length, 0);
	}
	close(fd);
}

void a_lying_agent_gets_no_byte_and_is_gone(void **state)
{
	static const struct {
		uint64_t offset, length;
	} lies[] = {{EXTENT, 1}, {0, EXTENT + 1}, {EXTENT - 1, 2}, {UINT64_MAX, 1},
		{UINT64_MAX - 4, 8}, {RESERVE, 4096}, {RESERVE - 1, 1}};

	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		struct kw_frame_read frame;
		struct kw_server_stats stats;
		struct fixture fixture;
		int fd;

		fixture_start(&fixture);
		fd = raw_agent(&fixture, 4);
		kw_frame_encode_read(&frame, 1, lies[i].offset, lies[i].length);
		send_all(fd, &frame, sizeof frame);
		if (carrier == KW_CARRIER_TCP)
			expect_end(&fixture, fd, KW_FRAME_BOUNDS, "outside of the table");
		else
			expect_end(&fixture, fd, KW_FRAME_BAD, "shm has none");
		kw_server_stats(fixture.server, &stats);
		assert_int_equal(stats.out_of_bounds + stats.bad_frames, 1);
		fixture_close(&fixture);
	}
}

void more_reads_than_negotiated_end_the_session(void **state)
{
	struct kw_frame_read frames[64];
	struct kw_server_stats stats;
	struct fixture fixture;
	int fd;

	if (carrier != KW_CARRIER_TCP)
		return; /* one-sided: there are no requests to count */
	fixture_start(&fixture);
	fd = raw_agent(&fixture, 4);
	for (int i = 0; i < 64; i++)
		kw_frame_encode_read(&frames[i], (uint64_t)i, 0, EXTENT);
	send_all(fd, frames, sizeof frames);
	WAIT(&fixture, fixture.left == 1);
	assert_non_null(strstr(fixture.why_left, "negotiated 4 READs"));
	kw_server_stats(fixture.server, &stats);
	assert_int_equal(stats.beyond_depth, 1);
	close(fd);
	fixture_close(&fixture);
}

void garbage_instead_of_frames_ends_the_session(void **state)
{
	struct kw_frame_report report = {
		.header = {KW_FRAME_MAGIC, KW_FRAME_REPORT, sizeof report}};
	struct kw_frame_read none;
	const struct {
		const void *bytes;
		size_t length;
	} garbage[] = {
		{"GET / HTTP/1.1\r\n\r\n", 18},
		{&none, sizeof none},
		{&report, sizeof report},
		{"\0\0\0\0\0\0\0\0", 8},
	};

	kw_frame_encode_read(&none, 1, 0, 0);
	memset(report.state, 7, sizeof report.state);
	for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
		struct fixture fixture;
		int fd;

		fixture_start(&fixture);
		fd = raw_agent(&fixture, 4);
		send_all(fd, garbage[i].bytes, garbage[i].length);
		expect_end(&fixture, fd, KW_FRAME_BAD, "it sent");
		fixture_close(&fixture);
	}
}

void an_agent_that_does_not_read_costs_the_others_nothing(void **state)
{
	struct kw_frame_read frames[16];
	struct fixture fixture;
	struct client client;
	struct try t;
	int fd;

	if (carrier != KW_CARRIER_TCP)
		return; /* one-sided: nobody waits for anybody */
	fixture_start(&fixture);
	fd = raw_agent(&fixture, 16);
	for (int i = 0; i < 16; i++)
		kw_frame_encode_read(&frames[i], (uint64_t)i, 0, EXTENT);
	send_all(fd, frames, sizeof frames);
	client_connect(&fixture, &client);
	for (int i = 0; i < 200; i++) {
		try_init(&t, (uint64_t)i, 30000);
		try_read(&client, &t);
		WAIT(&fixture, t.told);
		try_check(&t);
		try_free(&t);
	}
	assert_int_equal(fixture.left, 0);
	client_close(&fixture, &client);
	/* Shutting down does not wait for it either. */
	fixture_stop_server(&fixture);
	assert_int_equal(fixture.left, 2);
	close(fd);
	fixture_close(&fixture);
}

/* ---- a proxy that lies ---- */

enum lie {
	NO_LIE,
	WRONG_ID,
	SHORT_LENGTH,
	NO_REPLY_MAGIC,
	UNAGREED_BLOCKS,
	BROKEN_BLOCKS,
	UNSEALED,
	NO_FILE,
	OTHER_FILE,
	LIES
};

struct liar {
	struct fixture *fixture;
	enum lie lie;
	int listen_fd, fd, memory_fd;
	struct kw_exchange exchange;
	bool welcomed, answered;
};

static void liar_open(struct liar *liar, struct fixture *fixture, enum lie lie)
{
	struct sockaddr_un path = {.sun_family = AF_UNIX};
	struct sockaddr_in host = {.sin_family = AF_INET};
	bool local = carrier == KW_CARRIER_SHM;
	socklen_t length = sizeof host;

	*liar = (struct liar){.fixture = fixture, .lie = lie, .fd = -1};
	liar->memory_fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(liar->memory_fd, EXTENT), 0);
	if (lie != UNSEALED)
		assert_int_equal(fcntl(liar->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	liar->listen_fd =
		socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	fixture->address = (struct kw_address){.carrier = carrier, .host = "127.0.0.1"};
	snprintf(path.sun_path, sizeof path.sun_path, "%s/s", fixture->folder);
	(void)unlink(path.sun_path);
	strcpy(fixture->address.path, path.sun_path);
	host.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(
		bind(liar->listen_fd, local ? (struct sockaddr *)&path : (struct sockaddr *)&host,
			local ? sizeof path : sizeof host),
		0);
	assert_int_equal(listen(liar->listen_fd, 8), 0);
	getsockname(liar->listen_fd, (struct sockaddr *)&host, &length);
	fixture->address.port = ntohs(host.sin_port);
}

static void liar_answer(struct liar *liar)
{
	static uint8_t bytes[sizeof(struct kw_frame_reply) + 100];
	struct kw_frame_read request;
	struct kw_frame_reply reply;

	if (carrier != KW_CARRIER_TCP ||
		recv(liar->fd, &request, sizeof request, MSG_DONTWAIT) != sizeof request)
		return;
	kw_frame_encode_reply(&reply, KW_FRAME_OK, request.id, request.length);
	if (liar->lie == WRONG_ID)
		reply.id += 1;
	if (liar->lie == SHORT_LENGTH)
		reply.length -= 1;
	if (liar->lie == NO_REPLY_MAGIC)
		reply.magic ^= 1;
	if (liar->lie == UNAGREED_BLOCKS || liar->lie == BROKEN_BLOCKS)
		reply.encoding = KW_FRAME_BLOCKS;
	memcpy(bytes, &reply, sizeof reply);
	send_all(liar->fd, bytes, sizeof bytes);
	liar->answered = true;
}

static void liar_step(struct liar *liar)
{
	struct kw_handshake_facts facts = {.epoch = 1, .depth = 8, .extent = {.length = EXTENT}};
	const bool grants = liar->lie == BROKEN_BLOCKS;
	struct kw_channel channel;
	struct stat status;
	uint8_t nonce[KW_NONCE_BYTES] = {0};
	const struct kw_handshake_options options = {
		.layout_version = KW_LAYOUT_VERSION, .nonce = nonce};
	struct kw_error error;
	struct kw_wire wire;

	if (liar->fd < 0) {
		liar->fd = accept4(liar->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (liar->fd < 0)
			return;
		liar->exchange.give_fd =
			liar->lie == NO_FILE || carrier == KW_CARRIER_TCP ? -1 : liar->memory_fd;
		liar->exchange.taken_fd = -1;
		kw_handshake_init_proxy(&liar->exchange.handshake, &options);
		channel = raw_channel(liar->fd, &liar->fixture->address);
		if (carrier == KW_CARRIER_TCP)
			assert_int_equal(kw_tcp_socket_channel(liar->fd, false, &channel), 0);
		kw_handshake_set_channel(&liar->exchange.handshake, &channel);
		return;
	}
	if (liar->welcomed) {
		if (!liar->answered)
			liar_answer(liar);
		return;
	}
	wire = kw_wire_plain(liar->fd);
	switch (kw_exchange_step(&liar->exchange, &wire, &error)) {
	case KW_EXCHANGE_DECIDE:
		assert_int_equal(fstat(liar->memory_fd, &status), 0);
		facts.compression = grants ? KW_COMPRESSION_ZSTD : KW_COMPRESSION_UNTOLD;
		facts.memory_device = status.st_dev;
		facts.memory_inode = status.st_ino + (liar->lie == OTHER_FILE);
		kw_handshake_welcome(&liar->exchange.handshake, &facts);
		break;
	case KW_EXCHANGE_DONE:
		liar->welcomed = true;
		break;
	default:
		break;
	}
}

static void liar_close(struct liar *liar)
{
	close(liar->fd);
	close(liar->listen_fd);
	close(liar->memory_fd);
}

static bool is_about_file(enum lie lie)
{
	return lie == UNSEALED || lie == NO_FILE || lie == OTHER_FILE;
}

static void check_lie(enum lie lie)
{
	struct kw_remote_options options = plain_options();
	bool about_file = is_about_file(lie);
	struct fixture fixture;
	struct client client;
	struct liar liar;
	struct try t;

	fixture_open(&fixture);
	liar_open(&liar, &fixture, lie);
	options.compress = lie == BROKEN_BLOCKS;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, (liar_step(&liar), client.ready || client.closed));
	assert_int_equal(client.ready, !about_file);
	try_init(&t, 0, options.compress ? 2000 : 100);
	if (!about_file) {
		try_read(&client, &t);
		WAIT(&fixture, (liar_step(&liar), t.told));
		assert_int_equal(t.failed, lie != NO_LIE);
	}
	if (lie == NO_LIE)
		kw_remote_close(client.remote);
	WAIT(&fixture, client.closed);
	assert_int_equal(client.why.code, lie == NO_LIE       ? KW_OK
					  : lie == OTHER_FILE ? KW_E_REFUSED
							      : KW_E_PROTOCOL);
	try_free(&t);
	kw_remote_free(client.remote);
	liar_close(&liar);
	fixture_close(&fixture);
}

void a_lying_proxy_is_found_out(void **state)
{
	for (enum lie lie = NO_LIE; lie < LIES; lie++) {
		if (lie == BROKEN_BLOCKS && !kw_compression_built())
			continue;
		if (lie == NO_LIE || is_about_file(lie) == (carrier == KW_CARRIER_SHM))
			check_lie(lie);
	}
}

#define CUT_READS 8

/* All replies as one stream of bytes, handed over in pieces of `step`. */
static void check_cut(size_t step)
{
	static uint8_t stream[CUT_READS * (sizeof(struct kw_frame_reply) + 256)];
	const struct kw_remote_options options = plain_options();
	struct kw_frame_read request;
	struct try tries[CUT_READS];
	struct fixture fixture;
	struct client client;
	struct liar liar;
	size_t length = 0;

	fixture_open(&fixture);
	liar_open(&liar, &fixture, NO_LIE);
	liar.answered = true; /* by hand, below */
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, (liar_step(&liar), client.ready));
	assert_int_equal(client.info.depth, CUT_READS);
	for (int i = 0; i < CUT_READS; i++) {
		try_init(&tries[i], (uint64_t)i * 300, 1 + (uint64_t)i * 31);
		try_read(&client, &tries[i]);
	}
	for (int i = 0; i < CUT_READS; i++) {
		struct kw_frame_reply reply;

		assert_int_equal(
			recv(liar.fd, &request, sizeof request, MSG_DONTWAIT), sizeof request);
		kw_frame_encode_reply(&reply, KW_FRAME_OK, request.id, request.length);
		memcpy(stream + length, &reply, sizeof reply);
		length += sizeof reply;
		for (uint64_t k = 0; k < request.length; k++)
			stream[length++] = pattern(request.offset + k);
	}
	for (size_t at = 0; at < length; at += step) {
		send_all(liar.fd, stream + at, length - at < step ? length - at : step);
		for (int i = 0; i < 3; i++)
			uv_run(&fixture.loop, UV_RUN_NOWAIT);
	}
	WAIT(&fixture, tries[CUT_READS - 1].told);
	for (int i = 0; i < CUT_READS; i++) {
		try_check(&tries[i]);
		try_free(&tries[i]);
	}
	client_close(&fixture, &client);
	liar_close(&liar);
	fixture_close(&fixture);
}

void replies_cut_anywhere_are_put_together(void **state)
{
	if (carrier != KW_CARRIER_TCP)
		return; /* there are no replies */
	for (size_t step = 1; step < 120; step += step < 30 ? 1 : 7)
		check_cut(step);
}
