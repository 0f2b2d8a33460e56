#include "carriers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define OUT 40
#define LARGE 100

static void check_all_told_once(struct try *tries, int count)
{
	for (int i = 0; i < count; i++)
		assert_int_equal(tries[i].told, 1);
}

void a_killed_proxy_ends_every_read_once_and_the_connection_once(void **state)
{
	static struct try tries[OUT];
	struct fixture fixture;
	struct client client;
	int failed = 0;
	pid_t pid;

	fixture_open(&fixture);
	pid = spawn_server(&fixture);
	client_connect(&fixture, &client);
	for (int i = 0; i < OUT; i++) {
		try_init(&tries[i], (uint64_t)i, EXTENT - OUT);
		try_read(&client, &tries[i]);
	}
	uv_run(&fixture.loop, UV_RUN_NOWAIT);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	WAIT(&fixture, client.closed);
	for (int i = 0; i < 10; i++)
		uv_run(&fixture.loop, UV_RUN_ONCE);
	check_all_told_once(tries, OUT);
	assert_int_equal(client.closed, 1);
	assert_true(client.why.code != KW_OK);
	for (int i = 0; i < OUT; i++) {
		if (tries[i].failed) {
			failed++;
			assert_int_equal(tries[i].error.code, client.why.code);
			assert_string_equal(tries[i].error.text, client.why.text);
		}
		try_free(&tries[i]);
	}
	/* One-sided: what was asked for may well have come before the news did. */
	if (carrier == KW_CARRIER_TCP)
		assert_true(failed > 0);
	kw_remote_free(client.remote);
	fixture_close(&fixture);
}

void a_stopped_proxy_is_a_passed_deadline_where_it_serves(void **state)
{
	struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;
	struct try first, second;
	pid_t pid;

	fixture_open(&fixture);
	pid = spawn_server(&fixture);
	options.read_timeout_ms = carrier == KW_CARRIER_TCP ? 150 : WAIT_MS;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.ready);
	/* It stands still only once its parent is told so. */
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	try_init(&first, 0, 1000);
	try_init(&second, 9, 100);
	try_read(&client, &first);
	try_read(&client, &second);
	if (carrier != KW_CARRIER_TCP) {
		/* One-sided: READs go on; that the proxy stands still shows in its heartbeat. */
		WAIT(&fixture, first.told && second.told);
		try_check(&first);
		try_check(&second);
		kill(pid, SIGKILL);
		WAIT(&fixture, client.closed);
	} else {
		WAIT(&fixture, client.closed);
		assert_int_equal(client.why.code, KW_E_TIMEOUT);
		assert_true(first.failed && second.failed);
		assert_int_equal(first.error.code, KW_E_TIMEOUT);
		assert_non_null(strstr(client.why.text, "deadline of 150 ms"));
		kill(pid, SIGKILL);
	}
	assert_int_equal(first.told + second.told, 2);
	assert_int_equal(client.closed, 1);
	waitpid(pid, NULL, 0);
	try_free(&first);
	try_free(&second);
	kw_remote_free(client.remote);
	fixture_close(&fixture);
}

void closing_tells_back_the_reads_that_are_out(void **state)
{
	static struct try tries[OUT];
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	for (int i = 0; i < OUT; i++) {
		try_init(&tries[i], (uint64_t)i, 1 << 20);
		try_read(&client, &tries[i]);
	}
	kw_remote_close(client.remote);
	kw_remote_close(client.remote);
	assert_int_equal(client.closed, 0);
	WAIT(&fixture, client.closed);
	check_all_told_once(tries, OUT);
	for (int i = 0; i < OUT; i++) {
		assert_true(tries[i].failed);
		assert_int_equal(tries[i].error.code, KW_E_STATE);
		try_free(&tries[i]);
	}
	assert_int_equal(client.why.code, KW_OK);
	assert_int_equal(client.closed, 1);
	kw_remote_free(client.remote);
	WAIT(&fixture, fixture.left == 1);
	fixture_close(&fixture);
}

#define TURNS 24

/* Whenever the end comes, each is told once, and from then on its memory is the caller's. */
void closing_amid_large_reads_lets_go_of_their_memory(void **state)
{
	static struct try tries[LARGE];
	struct kw_remote_read *reads[LARGE];
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	for (int turns = 0; turns <= TURNS; turns++) {
		client_connect(&fixture, &client);
		for (int i = 0; i < LARGE; i++) {
			try_init(&tries[i], (uint64_t)i, 256 << 10);
			reads[i] = &tries[i].read;
		}
		kw_remote_read(client.remote, reads, LARGE);
		for (int i = 0; i < turns; i++)
			uv_run(&fixture.loop, UV_RUN_NOWAIT);
		if (turns == TURNS)
			WAIT(&fixture, tries[0].told); /* amid them for certain */
		client_close(&fixture, &client);
		check_all_told_once(tries, LARGE);
		for (int i = 0; i < LARGE; i++) {
			if (!tries[i].failed)
				try_check(&tries[i]);
			try_free(&tries[i]);
		}
	}
	fixture_close(&fixture);
}

void closing_while_connecting_is_told_once(void **state)
{
	const struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	for (int turns = 0; turns < 6; turns++) {
		assert_int_equal(client_open(&fixture, &client, &options), 0);
		for (int i = 0; i < turns; i++)
			uv_run(&fixture.loop, UV_RUN_NOWAIT);
		client_close(&fixture, &client);
		assert_int_equal(client.why.code, KW_OK);
	}
	/* Freeing from within the last callback is allowed. */
	client_connect(&fixture, &client);
	client.free_when_closed = true;
	kw_remote_close(client.remote);
	WAIT(&fixture, client.closed);
	assert_null(client.remote);
	fixture_close(&fixture);
}

void nobody_listening_is_a_sentence_and_not_a_crash(void **state)
{
	const struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	fixture_stop_server(&fixture);
	client_open(&fixture, &client, &options);
	assert_int_equal(client.closed, 0);
	WAIT(&fixture, client.closed);
	assert_int_equal(client.ready, 0);
	assert_int_equal(client.why.code, KW_E_IO);
	assert_non_null(strstr(client.why.text, kw_carrier_name(carrier)));
	assert_non_null(strstr(client.why.text, "is the proxy"));
	kw_remote_free(client.remote);
	if (carrier == KW_CARRIER_TCP) {
		strcpy(fixture.address.host, "no-such-host.invalid");
		client_open(&fixture, &client, &options);
		WAIT(&fixture, client.closed);
		assert_non_null(strstr(client.why.text, "cannot be resolved"));
		kw_remote_free(client.remote);
		/* A name still being looked up does not hold up the end. */
		client_open(&fixture, &client, &options);
		uv_run(&fixture.loop, UV_RUN_NOWAIT);
		client_close(&fixture, &client);
	}
	fixture_close(&fixture);
}

/* A listener that accepts nobody. */
static int mute_listener(struct fixture *fixture)
{
	struct sockaddr_un path = {.sun_family = AF_UNIX};
	struct sockaddr_in host = {.sin_family = AF_INET};
	bool local = carrier == KW_CARRIER_SHM;
	socklen_t length = sizeof host;
	int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	fixture->address = (struct kw_address){.carrier = carrier};
	snprintf(path.sun_path, sizeof path.sun_path, "%s/s", fixture->folder);
	strcpy(fixture->address.path, path.sun_path);
	strcpy(fixture->address.host, "127.0.0.1");
	host.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, local ? (struct sockaddr *)&path : (struct sockaddr *)&host,
				 local ? sizeof path : sizeof host),
		0);
	assert_int_equal(listen(fd, 8), 0);
	if (!local) {
		getsockname(fd, (struct sockaddr *)&host, &length);
		fixture->address.port = ntohs(host.sin_port);
	}
	return fd;
}

void a_proxy_that_never_answers_is_a_passed_deadline(void **state)
{
	struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;
	int fd;

	fixture_open(&fixture);
	fd = mute_listener(&fixture);
	options.connect_timeout_ms = 60;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.closed);
	assert_int_equal(client.why.code, KW_E_TIMEOUT);
	assert_int_equal(client.ready, 0);
	kw_remote_free(client.remote);
	close(fd);
	fixture_close(&fixture);
}

void a_proxy_that_shuts_down_says_so(void **state)
{
	struct fixture fixture;
	struct client client;
	struct try t;
	char path[128];

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	try_init(&t, 0, 100);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	fixture_stop_server(&fixture);
	assert_int_equal(fixture.left, 1);
	assert_non_null(strstr(fixture.why_left, "shutting down"));
	WAIT(&fixture, client.closed);
	assert_int_equal(client.why.code, KW_E_GONE);
	assert_non_null(strstr(client.why.text, "shutting down"));
	snprintf(path, sizeof path, "%s/s", fixture.folder);
	assert_int_not_equal(access(path, F_OK), 0);
	try_free(&t);
	kw_remote_free(client.remote);
	fixture_close(&fixture);
}

void many_connections_leave_nothing_behind(void **state)
{
	/* Over real verbs, in a guest, one takes 30 ms. */
	const int count = getenv("KW_TEST_RDMA_HOST") ? 250 : 1000;
	struct fixture fixture;
	struct client client;
	struct try t;
	int before = 0;

	fixture_start(&fixture);
	for (int i = 0; i < count; i++) {
		client_connect(&fixture, &client);
		try_init(&t, (uint64_t)i, 64);
		try_read(&client, &t);
		if (i % 3 != 0)
			WAIT(&fixture, t.told);
		client_close(&fixture, &client);
		assert_int_equal(t.told, 1);
		try_free(&t);
		WAIT(&fixture, fixture.left == i + 1);
		if (i == 10)
			before = count_fds();
	}
	assert_int_equal(fixture.joined, count);
	assert_int_equal(count_fds(), before);
	fixture_close(&fixture);
}
