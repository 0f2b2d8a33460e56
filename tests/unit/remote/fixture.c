#include "fixture.h"

#include "remote/socket.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

enum kw_carrier carrier;
bool compressed;
struct kw_tls_context *server_tls, *client_tls;

uint8_t pattern(uint64_t offset)
{
	if (compressed && offset >> 14 & 1)
		return (uint8_t)(offset % 23);
	return (uint8_t)((offset * UINT64_C(0x9E3779B97F4A7C15)) >> 56);
}

void fill_pattern(struct kw_memory *memory, uint64_t offset, uint64_t length)
{
	for (uint64_t i = 0; i < length; i++)
		memory->base[offset + i] = pattern(offset + i);
}

/* ---- the proxy's end ---- */

static uint64_t on_epoch(void *arg)
{
	(void)arg;
	return EPOCH;
}

static void on_joined(void *arg, const struct kw_session_info *session)
{
	struct fixture *fixture = arg;

	fixture->joined++;
	fixture->session = *session;
}

static void on_left(void *arg, const struct kw_session_info *session, const char *why)
{
	struct fixture *fixture = arg;

	fixture->left++;
	fixture->session = *session;
	snprintf(fixture->why_left, sizeof fixture->why_left, "%s", why);
}

static void on_rejected(void *arg, const char *why)
{
	struct fixture *fixture = arg;

	fixture->rejected++;
	snprintf(fixture->why_rejected, sizeof fixture->why_rejected, "%s", why);
}

static void on_listener(void *arg, const struct kw_listener_info *listener)
{
	struct fixture *fixture = arg;

	fixture->told_of_listeners++;
	fixture->listener = *listener;
}

static void on_ticket(void *arg, uint16_t ticket)
{
	(void)ticket;
	((struct fixture *)arg)->wishes++;
}

static void on_placed(void *arg)
{
	struct fixture *fixture = arg;

	fixture->placed++;
	if (fixture->when_placed)
		fixture->when_placed(fixture);
}

static void on_rotated(void *arg, const struct kw_rotation *rotation)
{
	struct fixture *fixture = arg;

	fixture->rotated++;
	fixture->rotation = *rotation;
}

static void on_tick(uv_timer_t *timer)
{
	(void)timer;
}

static void make_memory(struct fixture *fixture)
{
	struct kw_extent extent = {.offset = 0, .length = EXTENT};
	struct kw_error error;

	assert_int_equal(kw_memory_init(&fixture->memory, RESERVE, &error), 0);
	assert_int_equal(kw_memory_extend(&fixture->memory, &extent, &error), 0);
	fill_pattern(&fixture->memory, 0, EXTENT);
}

void fixture_open(struct fixture *fixture)
{
	*fixture = (struct fixture){0};
	strcpy(fixture->folder, "/tmp/kw-remote-XXXXXX");
	assert_non_null(mkdtemp(fixture->folder));
	assert_int_equal(uv_loop_init(&fixture->loop), 0);
	uv_timer_init(&fixture->loop, &fixture->tick);
	uv_timer_start(&fixture->tick, on_tick, 2, 2);
	make_memory(fixture);
}

static struct kw_address listen_address(const char *folder)
{
	struct kw_address address = {.carrier = carrier};

	if (carrier == KW_CARRIER_SHM)
		snprintf(address.path, sizeof address.path, "%s/s", folder);
	else if (carrier == KW_CARRIER_RDMA && getenv("KW_TEST_RDMA_HOST"))
		snprintf(address.host, sizeof address.host, "%s", getenv("KW_TEST_RDMA_HOST"));
	else
		strcpy(address.host, "127.0.0.1");
	return address;
}

struct kw_server_handlers fixture_handlers(struct fixture *fixture)
{
	return (struct kw_server_handlers){
		.epoch = on_epoch,
		.joined = on_joined,
		.left = on_left,
		.rejected = on_rejected,
		.listener = on_listener,
		.ticket = on_ticket,
		.placed = on_placed,
		.rotated = on_rotated,
		.arg = fixture,
	};
}

void fixture_serve(struct fixture *fixture, const struct kw_server_options *options)
{
	const struct kw_server_handlers handlers = fixture_handlers(fixture);
	struct kw_server_options served = *options;
	struct kw_error error = {0};

	fixture->address = listen_address(fixture->folder);
	served.tls = server_tls;
	if (compressed)
		served.limits.compressed = 256;
	/* Both ends sign and verify on one loop: 64 at once take seconds on a busy machine. */
	if (served.handshake_timeout_ms == 0)
		served.handshake_timeout_ms = served.hello_timeout_ms = WAIT_MS;
	served.allow_insecure = true; /* the tests of strangers ask for less */
	fixture->server = kw_server_new(&fixture->loop, &fixture->memory, &served, &handlers);
	if (kw_server_listen(fixture->server, &fixture->address, &error) != 0)
		fail_msg("%s", error.text);
	if (carrier != KW_CARRIER_SHM)
		fixture->address.port = kw_server_port(fixture->server, 0);
}

static void on_server_closed(void *arg)
{
	struct fixture *fixture = arg;

	fixture->closed++;
	fixture->server = NULL;
}

void fixture_stop_server(struct fixture *fixture)
{
	kw_server_close(fixture->server, on_server_closed, fixture);
	assert_int_equal(fixture->closed, 0);
	WAIT(fixture, fixture->closed == 1);
}

void fixture_close(struct fixture *fixture)
{
	char path[128];

	if (fixture->server)
		fixture_stop_server(fixture);
	uv_close((uv_handle_t *)&fixture->tick, NULL);
	kw_remote_end(&fixture->loop);
	uv_run(&fixture->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&fixture->loop), 0);
	kw_memory_close(&fixture->memory);
	snprintf(path, sizeof path, "%s/s", fixture->folder);
	(void)unlink(path);
	assert_int_equal(rmdir(fixture->folder), 0);
}

void fixture_start(struct fixture *fixture)
{
	const struct kw_server_options options = {0};

	fixture_open(fixture);
	fixture_serve(fixture, &options);
}

/* ---- the agent's end ---- */

static void on_ready(void *arg, const struct kw_remote_info *info)
{
	struct client *client = arg;

	client->ready++;
	client->info = *info;
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct client *client = arg;

	client->closed++;
	client->why = *why;
	if (client->free_when_closed) {
		kw_remote_free(client->remote);
		client->remote = NULL;
	}
}

static void on_awake(void *arg)
{
	((struct client *)arg)->awake++;
}

struct kw_remote_options plain_options(void)
{
	static struct kw_tls_current current;

	current.context = client_tls;
	return (struct kw_remote_options){
		.agent_name = "tester",
		.allow_insecure = true,
		.connect_timeout_ms = WAIT_MS,
		.tls = &current,
		.compress = compressed,
	};
}

int client_open(
	struct fixture *fixture, struct client *client, const struct kw_remote_options *options)
{
	const struct kw_remote_handlers handlers = {on_ready, on_closed, client, on_awake};

	*client = (struct client){0};
	return kw_remote_open(&fixture->loop, &fixture->address, options, &handlers,
		&client->remote, &client->why);
}

void client_connect(struct fixture *fixture, struct client *client)
{
	const struct kw_remote_options options = plain_options();

	assert_int_equal(client_open(fixture, client, &options), 0);
	WAIT(fixture, client->ready || client->closed);
	if (client->closed)
		fail_msg("%s", client->why.text);
	assert_int_equal(client->ready, 1);
}

void client_close(struct fixture *fixture, struct client *client)
{
	kw_remote_close(client->remote);
	WAIT(fixture, client->closed);
	assert_int_equal(client->closed, 1);
	kw_remote_free(client->remote);
	client->remote = NULL;
}

/* ---- READs ---- */

#define GUARD 16

static void on_done(struct kw_remote_read *read, const struct kw_error *error)
{
	struct try *t = read->arg;

	t->told++;
	t->failed = error != NULL;
	if (error)
		t->error = *error;
	if (t->order)
		t->place = ++*t->order;
}

void try_init(struct try *t, uint64_t offset, uint64_t length)
{
	*t = (struct try){.read = {.offset = offset, .length = length, .done = on_done}};
	t->bytes = malloc(length + 2 * GUARD);
	assert_non_null(t->bytes);
	memset(t->bytes, 0xEE, length + 2 * GUARD);
	t->read.buffer = t->bytes + GUARD;
	t->read.arg = t;
}

void try_free(struct try *t)
{
	free(t->bytes);
}

void try_read(struct client *client, struct try *t)
{
	struct kw_remote_read *read = &t->read;

	kw_remote_read(client->remote, &read, 1);
	assert_int_equal(t->told, 0);
}

void try_check(const struct try *t)
{
	assert_int_equal(t->told, 1);
	if (t->failed)
		fail_msg("%s", t->error.text);
	for (uint64_t i = 0; i < t->read.length; i++)
		if (t->read.buffer[i] != pattern(t->read.offset + i))
			fail_msg("byte %llu of READ at %llu is wrong", (unsigned long long)i,
				(unsigned long long)t->read.offset);
	for (uint64_t i = 0; i < GUARD; i++) {
		assert_int_equal(t->bytes[i], 0xEE);
		assert_int_equal(t->read.buffer[t->read.length + i], 0xEE);
	}
}

/* ---- raw sockets ---- */

int raw_socket(const struct kw_address *address)
{
	struct sockaddr_un path = {.sun_family = AF_UNIX};
	struct sockaddr_in host = {.sin_family = AF_INET, .sin_port = htons(address->port)};
	bool local = address->carrier == KW_CARRIER_SHM;
	int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	strcpy(path.sun_path, address->path);
	host.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, local ? (struct sockaddr *)&path : (struct sockaddr *)&host,
		    local ? sizeof path : sizeof host) != 0)
		fail_msg("connect: %s", strerror(errno));
	return fd;
}

struct kw_channel raw_channel(int fd, const struct kw_address *address)
{
	struct kw_channel channel;
	struct stat status;

	if (address->carrier == KW_CARRIER_SHM) {
		assert_int_equal(stat(address->path, &status), 0);
		return kw_channel_shm(status.st_dev, status.st_ino);
	}
	assert_int_equal(kw_tcp_socket_channel(fd, true, &channel), 0);
	return channel;
}

int raw_connect(struct fixture *fixture, const struct raw_options *options, int *code,
	struct kw_error *error)
{
	struct kw_exchange exchange = {.give_fd = -1, .taken_fd = -1};
	int fd = raw_socket(&fixture->address);
	struct kw_wire wire = kw_wire_plain(fd);
	const struct kw_channel channel = raw_channel(fd, &fixture->address);
	uint8_t nonce[KW_NONCE_BYTES];
	struct kw_handshake_options handshake = {
		.role = KW_ROLE_AGENT,
		.channel = options->channel ? options->channel : &channel,
		.secret = options->secret,
		.name = options->name ? options->name : "raw",
		.layout_version =
			options->layout_version ? options->layout_version : KW_LAYOUT_VERSION,
		.depth = options->depth ? options->depth : 4,
		.sleeps = options->sleeps,
		.nonce = nonce,
	};

	exchange.takes_fd = carrier == KW_CARRIER_SHM;
	*error = (struct kw_error){0};
	assert_int_equal(kw_handshake_nonce(nonce, error), 0);
	kw_handshake_init_agent(&exchange.handshake, &handshake);
	for (int i = 0; i < WAIT_MS; i++) {
		enum kw_exchange_result result = kw_exchange_step(&exchange, &wire, error);

		if (result == KW_EXCHANGE_DONE || result == KW_EXCHANGE_FAILED)
			break;
		uv_run(&fixture->loop, UV_RUN_ONCE);
	}
	*code = kw_handshake_is(&exchange.handshake, KW_HANDSHAKE_DONE) ? 0 : (int)error->code;
	if (exchange.taken_fd >= 0)
		close(exchange.taken_fd);
	return fd;
}

/* ---- a proxy of its own ---- */

extern char **environ;

pid_t spawn_server(struct fixture *fixture)
{
	char name[8], port[16] = "";
	char *arguments[] = {(char *)"server", (char *)"--serve", name, fixture->folder, NULL};
	posix_spawn_file_actions_t actions;
	int tube[2];
	pid_t pid;

	strcpy(name, kw_carrier_name(carrier));
	assert_int_equal(pipe(tube), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, tube[1], 1);
	posix_spawn_file_actions_addclose(&actions, tube[0]);
	assert_int_equal(
		posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(tube[1]);
	assert_true(read(tube[0], port, sizeof port - 1) > 0);
	close(tube[0]);
	fixture->address = listen_address(fixture->folder);
	fixture->address.port = (uint16_t)atoi(port);
	return pid;
}

int serve_main(const char *carrier_name, const char *folder)
{
	const struct kw_server_options options = {0};
	struct fixture fixture;

	/* A test that dies must not leave it behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (carrier = KW_CARRIER_SHM; strcmp(carrier_name, kw_carrier_name(carrier)) != 0;)
		assert_true(++carrier <= KW_CARRIER_RDMA);
	fixture_open(&fixture);
	rmdir(fixture.folder);
	strcpy(fixture.folder, folder);
	fixture_serve(&fixture, &options);
	printf("%u\n", fixture.address.port);
	fflush(stdout);
	return uv_run(&fixture.loop, UV_RUN_DEFAULT);
}

int count_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}
