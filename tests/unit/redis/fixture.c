#include "fixture.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 32
#define PATIENCE_US 20000000
#define TICK_MS 10

static void fail(const char *what)
{
	fprintf(stderr, "fixture: %s (errno %d: %s)\n", what, errno, strerror(errno));
	abort();
}

static void make_folder(char folder[32])
{
	strcpy(folder, "/tmp/kw-redis-XXXXXX");
	if (!mkdtemp(folder))
		fail("mkdtemp");
}

static int connect_local(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
		return fd;
	close(fd);
	return -1;
}

/* The server. */

static void run_server(const struct test_server *server, const char *const *extra)
{
	char socket_path[64];
	const char *argv[WORDS_MAX] = {"redis-server", "--port", "0", "--unixsocket", socket_path,
		"--dir", server->folder, "--save", "", "--appendonly", "no", "--logfile",
		"server.log", "--enable-debug-command", "yes"};
	int argc = 15;

	snprintf(socket_path, sizeof socket_path, "%s/s", server->folder);
	for (; extra && *extra; extra++) {
		assert(argc < WORDS_MAX - 1);
		argv[argc++] = *extra;
	}
	/* A test that dies must not leave its server behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

void test_server_start(struct test_server *server, const char *const *extra)
{
	uint64_t until = kw_clock_us() + PATIENCE_US;
	const char *path;
	int fd;

	make_folder(server->folder);
	snprintf(server->address, sizeof server->address, "unix://%s/s", server->folder);
	path = server->address + strlen("unix://");
	server->pid = fork();
	if (server->pid == 0)
		run_server(server, extra);
	while ((fd = connect_local(path)) < 0) {
		if (kw_clock_us() > until || waitpid(server->pid, NULL, WNOHANG) != 0)
			fail("redis-server does not start");
		usleep(5000);
	}
	close(fd);
}

static void remove_folder(const char *folder)
{
	static const char *const names[] = {"s", "server.log", "dump.rdb"};
	char path[64];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
}

void test_server_stop(struct test_server *server)
{
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
	remove_folder(server->folder);
}

/* The scripted server. */

/* "*2\r\n" or "$5\r\n": the number; -1 when the client is gone. */
static long read_header(FILE *from)
{
	char line[64];

	return fgets(line, sizeof line, from) ? strtol(line + 1, NULL, 10) : -1;
}

static bool receive_command(FILE *from)
{
	long words = read_header(from);

	for (long i = 0; i < words; i++) {
		long length = read_header(from);

		for (long left = length + 2; left > 0; left--) {
			if (fgetc(from) == EOF)
				return false;
		}
	}
	return words > 0;
}

static void drip(int fd, const char *text, int pause_ms)
{
	for (; *text; text++) {
		send(fd, text, 1, MSG_NOSIGNAL);
		usleep(pause_ms ? (useconds_t)pause_ms * 1000 : 50);
	}
}

static void wait_for(int fd, short events)
{
	struct pollfd poll_fd = {.fd = fd, .events = events};

	poll(&poll_fd, 1, 30000);
}

static void play(struct test_fake *fake, int fd, FILE *from)
{
	for (const struct test_step *step = fake->script; step->act != TEST_END; step++) {
		switch (step->act) {
		case TEST_RECEIVE:
			for (int i = 0; i < step->number; i++) {
				if (!receive_command(from))
					return;
			}
			break;
		case TEST_SEND:
			send(fd, step->text, strlen(step->text), MSG_NOSIGNAL);
			break;
		case TEST_DRIP:
			drip(fd, step->text, 0);
			break;
		case TEST_DRIP_SLOW:
			drip(fd, step->text, step->number);
			break;
		case TEST_HOLD:
			while (fgetc(from) != EOF)
				;
			return;
		case TEST_SULK:
			wait_for(fake->release[0], POLLIN);
			return;
		case TEST_END:
			break;
		}
	}
}

static void *fake_main(void *arg)
{
	struct test_fake *fake = arg;
	int fd = accept(fake->listener, NULL, NULL);
	FILE *from;

	if (fd < 0)
		return NULL;
	from = fdopen(dup(fd), "r");
	play(fake, fd, from);
	fclose(from);
	close(fd);
	return NULL;
}

void test_fake_start(struct test_fake *fake, const struct test_step *script)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	make_folder(fake->folder);
	snprintf(address.sun_path, sizeof address.sun_path, "%s/s", fake->folder);
	snprintf(fake->address, sizeof fake->address, "unix://%s/s", fake->folder);
	fake->script = script;
	fake->listener = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(fake->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
		listen(fake->listener, 8) < 0 || pipe(fake->release) < 0)
		fail("listen");
	if (pthread_create(&fake->thread, NULL, fake_main, fake) != 0)
		fail("pthread_create");
}

void test_fake_stop(struct test_fake *fake)
{
	close(fake->release[1]);
	shutdown(fake->listener, SHUT_RDWR); /* wakes an accept that nobody came to */
	pthread_join(fake->thread, NULL);
	close(fake->release[0]);
	close(fake->listener);
	remove_folder(fake->folder);
}

/* The client. */

void test_note(struct kw_buffer *notes, const struct kw_reply *reply)
{
	int length = (int)reply->text.length;
	const char *text = reply->text.data;

	switch (reply->type) {
	case KW_REPLY_STATUS:
		kw_buffer_printf(notes, "+%.*s ", length, text);
		break;
	case KW_REPLY_ERROR:
		kw_buffer_printf(notes, "-%.*s ", length, text);
		break;
	case KW_REPLY_INTEGER:
		kw_buffer_printf(notes, ":%lld ", (long long)reply->integer);
		break;
	case KW_REPLY_STRING:
		kw_buffer_printf(notes, "\"%.*s\" ", length, text);
		break;
	case KW_REPLY_NIL:
		kw_buffer_printf(notes, "nil ");
		break;
	case KW_REPLY_ARRAY:
		kw_buffer_printf(notes, "[ ");
		for (size_t i = 0; i < reply->count; i++)
			test_note(notes, &reply->elements[i]);
		kw_buffer_printf(notes, "] ");
		break;
	case KW_REPLY_RAW:
		kw_buffer_printf(notes, "raw:%.*s ", length, text);
		break;
	case KW_REPLY_TOO_LONG:
		kw_buffer_printf(notes, "too long:%lld ", (long long)reply->integer);
		break;
	}
}

void test_client_note(void *arg, const struct kw_reply *reply)
{
	struct test_client *client = arg;

	client->replies++;
	if (reply) {
		test_note(&client->heard, reply);
		return;
	}
	client->lost++;
	kw_buffer_printf(&client->heard, "lost ");
}

static const char *text_of(struct kw_buffer *notes)
{
	size_t length = kw_buffer_length(notes);

	*kw_buffer_reserve(notes, 1) = '\0';
	if (length > 0) /* without the last space */
		notes->data[notes->end - 1] = '\0';
	return (const char *)kw_buffer_bytes(notes);
}

const char *test_client_heard(struct test_client *client)
{
	return text_of(&client->heard);
}

const char *test_client_pushed(struct test_client *client)
{
	return text_of(&client->pushed);
}

static void on_ready(void *arg)
{
	((struct test_client *)arg)->ready++;
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct test_client *client = arg;

	client->closed++;
	client->why = *why;
}

static void on_push(void *arg, const struct kw_reply *message)
{
	struct test_client *client = arg;

	client->pushes++;
	test_note(&client->pushed, message);
}

static void on_tick(uv_timer_t *timer)
{
	/* Only to let uv_run return. */
}

struct kw_redis_options test_options(const char *address)
{
	struct kw_redis_options options = {0};

	snprintf(options.address, sizeof options.address, "%s", address);
	return options;
}

void test_client_open(struct test_client *client, const struct kw_redis_options *options)
{
	struct kw_redis_handlers handlers = {on_ready, on_closed, on_push, client};
	struct kw_error error;

	memset(client, 0, sizeof *client);
	uv_loop_init(&client->loop);
	uv_timer_init(&client->loop, &client->tick);
	uv_timer_start(&client->tick, on_tick, TICK_MS, TICK_MS);
	if (kw_redis_open(&client->loop, options, &handlers, &client->redis, &error) != 0)
		fail(error.text);
}

void test_client_run(struct test_client *client, const int *counter, int wanted)
{
	uint64_t until = kw_clock_us() + PATIENCE_US;

	while (*counter < wanted) {
		if (kw_clock_us() > until)
			fail("waited in vain for the connection");
		uv_run(&client->loop, UV_RUN_ONCE);
	}
}

void test_client_idle(struct test_client *client, unsigned ms)
{
	uint64_t until = kw_clock_us() + (uint64_t)ms * 1000;

	while (kw_clock_us() < until)
		uv_run(&client->loop, UV_RUN_ONCE);
}

void test_client_stop(struct test_client *client)
{
	if (!client->closed)
		kw_redis_close(client->redis);
	test_client_run(client, &client->closed, 1);
	kw_redis_free(client->redis);
	uv_close((uv_handle_t *)&client->tick, NULL);
	uv_run(&client->loop, UV_RUN_DEFAULT);
	/* Busy would mean that the connection left a handle or a request behind. */
	if (uv_loop_close(&client->loop) != 0)
		fail("the loop is not empty after the connection was freed");
	kw_buffer_close(&client->heard);
	kw_buffer_close(&client->pushed);
}
