/*
 * Arbitrary bytes at a proxy's listener (shm; tcp shares all of it but the bytes' end): nobody
 * without the secret becomes a session, and every connection is let go when its agent is.
 *
 * The first byte chooses a proxy with a secret or one without, an honest handshake before the
 * bytes, and the pieces.
 */
#include "fuzz.h"

#include "remote/exchange.h"
#include "remote/frame.h"
#include "remote/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#define EXTENT (UINT64_C(1) << 20)
#define TURNS_MAX 1000

struct proxy {
	struct kw_server *server;
	struct sockaddr_un address;
	int joined, left;
};

static char folder[] = "/tmp/kw-fuzz-XXXXXX";
static uv_loop_t loop;
static struct kw_memory memory;
static struct proxy proxies[2]; /* the second has a secret */

static uint64_t on_epoch(void *arg)
{
	(void)arg;
	return 9;
}

static void on_joined(void *arg, const struct kw_session_info *session)
{
	must(session->name[0] != 0 && memchr(session->name, 0, sizeof session->name) != NULL);
	++((struct proxy *)arg)->joined;
}

static void on_left(void *arg, const struct kw_session_info *session, const char *why)
{
	(void)session;
	must(why[0] != 0);
	++((struct proxy *)arg)->left;
}

static void on_rejected(void *arg, const char *why)
{
	(void)arg;
	must(why[0] != 0);
}

static void remove_folder(void)
{
	for (int i = 0; i < 2; i++)
		unlink(proxies[i].address.sun_path);
	rmdir(folder);
}

static void serve(struct proxy *proxy, int number)
{
	const struct kw_server_options options = {
		.secret = number ? kw_slice_text("fuzz") : (struct kw_slice){0}, .depth_max = 4};
	const struct kw_server_handlers handlers = {.epoch = on_epoch,
		.joined = on_joined,
		.left = on_left,
		.rejected = on_rejected,
		.arg = proxy};
	struct kw_address address = {.carrier = KW_CARRIER_SHM};
	struct kw_error error;

	snprintf(address.path, sizeof address.path, "%s/%d", folder, number);
	proxy->address.sun_family = AF_UNIX;
	strcpy(proxy->address.sun_path, address.path);
	proxy->server = kw_server_new(&loop, &memory, &options, &handlers);
	must(kw_server_listen(proxy->server, &address, &error) == 0);
}

static void start(void)
{
	struct kw_extent extent = {.length = EXTENT};
	struct kw_error error;

	must(mkdtemp(folder) != NULL && uv_loop_init(&loop) == 0);
	must(kw_memory_init(&memory, EXTENT, &error) == 0);
	must(kw_memory_extend(&memory, &extent, &error) == 0);
	for (int i = 0; i < 2; i++)
		serve(&proxies[i], i);
	atexit(remove_folder);
}

static void turn(void)
{
	for (int i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static struct kw_channel channel_of(const struct proxy *proxy)
{
	struct stat status;

	must(stat(proxy->address.sun_path, &status) == 0);
	return kw_channel_shm(status.st_dev, status.st_ino);
}

static void greet_honestly(int fd, int number, struct proxy *proxy)
{
	static const uint8_t nonce[KW_NONCE_BYTES] = {7};
	const struct kw_channel channel = channel_of(proxy);
	const struct kw_handshake_options options = {.role = KW_ROLE_AGENT,
		.channel = &channel,
		.secret = number ? kw_slice_text("fuzz") : (struct kw_slice){0},
		.name = "fuzzer",
		.layout_version = KW_LAYOUT_VERSION,
		.depth = 8,
		.nonce = nonce};
	struct kw_exchange exchange = {.give_fd = -1, .taken_fd = -1, .takes_fd = true};
	enum kw_exchange_result result = KW_EXCHANGE_READ;
	struct kw_wire wire = kw_wire_plain(fd);
	struct kw_error error;

	kw_handshake_init_agent(&exchange.handshake, &options);
	for (int i = 0; i < TURNS_MAX && result != KW_EXCHANGE_DONE; i++) {
		result = kw_exchange_step(&exchange, &wire, &error);
		turn();
	}
	must(result == KW_EXCHANGE_DONE && exchange.taken_fd >= 0 && proxy->joined == 1);
	close(exchange.taken_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proxy *proxy;
	size_t piece;
	int fd, number;
	bool greets;

	if (size < 1)
		return 0;
	if (!proxies[0].server)
		start();
	number = data[0] & 1;
	greets = data[0] & 2;
	piece = (size_t)(data[0] >> 2) * 4 + 1;
	data++;
	size--;
	proxy = &proxies[number];
	proxy->joined = proxy->left = 0;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(fd >= 0);
	must(connect(fd, (struct sockaddr *)&proxy->address, sizeof proxy->address) == 0);
	turn();
	if (greets)
		greet_honestly(fd, number, proxy);
	while (size > 0) {
		size_t take = piece < size ? piece : size;

		if (send(fd, data, take, MSG_NOSIGNAL) <= 0)
			break;
		data += take;
		size -= take;
		turn();
	}
	must(proxy->joined <= 1 && (number == 0 || greets || proxy->joined == 0));
	close(fd);
	for (int i = 0; i < TURNS_MAX && proxy->left < proxy->joined; i++)
		turn();
	must(proxy->left == proxy->joined);
	return 0;
}

/* A HELLO, frames after a handshake, and what is neither. */
size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most)
{
	static const uint8_t nonce[KW_NONCE_BYTES] = {7};
	struct kw_channel channel;
	const struct kw_handshake_options options = {.name = "fuzzer",
		.role = KW_ROLE_AGENT,
		.channel = &channel,
		.layout_version = KW_LAYOUT_VERSION,
		.depth = 8,
		.nonce = nonce};
	const struct kw_remote_progress progress = {.passed = 1, .state = "warm"};
	struct kw_frame_report report;
	struct kw_handshake end;
	struct kw_slice output;

	if (most < 1024)
		return 0;
	if (!proxies[0].server)
		start();
	channel = channel_of(&proxies[0]);
	switch (n) {
	case 0:
	case 1:
		data[0] = n ? 0xfd : 0xfc;
		kw_handshake_init_agent(&end, &options);
		output = kw_handshake_output(&end);
		memcpy(data + 1, output.data, output.length);
		return 1 + output.length;
	case 2:
		data[0] = 0x42;
		kw_frame_encode_report(&report, &progress);
		memcpy(data + 1, &report, sizeof report);
		return 1 + sizeof report;
	case 3:
		memcpy(data, "\x40GET / HTTP/1.1\r\n", 17);
		return 17;
	default:
		return 0;
	}
}
