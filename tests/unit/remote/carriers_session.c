#include "carriers.h"

#include "remote/slots.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#define SECRET kw_slice_text("correct horse battery staple")

static void serve_with_secret(struct fixture *fixture)
{
	const struct kw_server_options served = {.secret = SECRET};

	fixture_open(fixture);
	fixture_serve(fixture, &served);
}

void the_right_secret_is_let_in(void **state)
{
	struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;
	struct try t;

	serve_with_secret(&fixture);
	options.secret = SECRET;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.ready);
	try_init(&t, 3, 300);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	try_check(&t);
	try_free(&t);
	assert_int_equal(fixture.joined, 1);
	assert_string_equal(fixture.session.name, "tester");
	assert_int_equal(fixture.session.carrier, carrier);
	assert_true(fixture.session.peer[0] != 0);
	client_close(&fixture, &client);
	WAIT(&fixture, fixture.left == 1);
	assert_non_null(strstr(fixture.why_left, "closed"));
	assert_int_equal(fixture.wishes, 0); /* an end is none */
	fixture_close(&fixture);
}

/* The agent is refused with a code and a sentence; the proxy hears of it once. */
static void expect_refused(struct fixture *fixture, const struct kw_remote_options *options,
	const char *agent_reads, const char *proxy_reads)
{
	struct client client;

	assert_int_equal(client_open(fixture, &client, options), 0);
	WAIT(fixture, client.closed);
	assert_int_equal(client.ready, 0);
	assert_int_equal(client.why.code, KW_E_REFUSED);
	if (!strstr(client.why.text, agent_reads))
		fail_msg("\"%s\" lacks \"%s\"", client.why.text, agent_reads);
	kw_remote_free(client.remote);
	WAIT(fixture, fixture->rejected == 1);
	if (!strstr(fixture->why_rejected, proxy_reads))
		fail_msg("\"%s\" lacks \"%s\"", fixture->why_rejected, proxy_reads);
	assert_int_equal(fixture->joined, 0);
}

void a_wrong_secret_is_refused_on_both_sides(void **state)
{
	struct kw_remote_options options = plain_options();
	struct fixture fixture;

	serve_with_secret(&fixture);
	options.secret = kw_slice_text("wrong");
	expect_refused(&fixture, &options, "unknown secret", "unknown secret");
	fixture_close(&fixture);
}

void a_missing_secret_is_refused_on_both_sides(void **state)
{
	const struct kw_remote_options options = plain_options();
	struct fixture fixture;

	serve_with_secret(&fixture);
	expect_refused(&fixture, &options, "auth.secret_file", "gave no secret");
	fixture_close(&fixture);
}

void an_agent_with_a_secret_does_not_trust_a_proxy_without(void **state)
{
	struct kw_remote_options options = plain_options();
	struct fixture fixture;

	fixture_start(&fixture);
	options.secret = SECRET;
	expect_refused(&fixture, &options, "no secret to prove", "closed");
	fixture_close(&fixture);
}

void another_layout_version_is_refused_with_both_named(void **state)
{
	const struct raw_options options = {.layout_version = KW_LAYOUT_VERSION + 41};
	struct fixture fixture;
	struct kw_error error;
	char version[16], ours[32];
	int code, fd;

	fixture_start(&fixture);
	fd = raw_connect(&fixture, &options, &code, &error);
	assert_int_equal(code, KW_E_REFUSED);
	snprintf(version, sizeof version, "%d", KW_LAYOUT_VERSION + 41);
	snprintf(ours, sizeof ours, "layout version %d,", KW_LAYOUT_VERSION);
	assert_non_null(strstr(error.text, ours));
	assert_non_null(strstr(error.text, version));
	WAIT(&fixture, fixture.rejected == 1);
	assert_non_null(strstr(fixture.why_rejected, version));
	close(fd);
	fixture_close(&fixture);
}

#define AGENTS 64
#define READS 20

void sixty_four_agents_read_at_once(void **state)
{
	const struct kw_remote_options options = plain_options();
	static struct client clients[AGENTS];
	static struct try tries[AGENTS][READS];
	static struct kw_session_info infos[AGENTS];
	struct fixture fixture;
	int told = 0, ready = 0;

	fixture_start(&fixture);
	for (int i = 0; i < AGENTS; i++)
		assert_int_equal(client_open(&fixture, &clients[i], &options), 0);
	WAIT(&fixture, fixture.joined == AGENTS);
	for (int i = 0; i < AGENTS; i++)
		WAIT(&fixture, clients[i].ready);
	for (int i = 0; i < AGENTS; i++)
		for (int k = 0; k < READS; k++) {
			try_init(&tries[i][k], (uint64_t)(i * 1000 + k), 5000);
			tries[i][k].order = &told;
			try_read(&clients[i], &tries[i][k]);
		}
	WAIT(&fixture, told == AGENTS * READS);
	assert_int_equal(kw_server_sessions(fixture.server, infos, AGENTS), AGENTS);
	for (int i = 0; i < AGENTS; i++) {
		ready += clients[i].ready;
		for (int k = 0; k < READS; k++) {
			try_check(&tries[i][k]);
			try_free(&tries[i][k]);
		}
		client_close(&fixture, &clients[i]);
	}
	assert_int_equal(ready, AGENTS);
	WAIT(&fixture, fixture.left == AGENTS);
	assert_int_equal(kw_server_sessions(fixture.server, infos, AGENTS), 0);
	fixture_close(&fixture);
}

void one_session_too_many_is_refused_with_the_limit(void **state)
{
	const struct kw_server_options served = {.limits = {.sessions = 2}};
	const struct kw_remote_options options = plain_options();
	struct client clients[2], late;
	struct fixture fixture;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	client_connect(&fixture, &clients[0]);
	client_connect(&fixture, &clients[1]);
	assert_int_equal(client_open(&fixture, &late, &options), 0);
	WAIT(&fixture, late.closed);
	assert_int_equal(late.why.code, KW_E_REFUSED);
	assert_non_null(strstr(late.why.text, "2 sessions"));
	kw_remote_free(late.remote);
	client_close(&fixture, &clients[0]);
	WAIT(&fixture, fixture.left == 1);
	client_connect(&fixture, &late);
	client_close(&fixture, &late);
	client_close(&fixture, &clients[1]);
	fixture_close(&fixture);
}

static void expect_one_too_many(const struct kw_server_limits *limits, const char *sentence)
{
	const struct kw_server_options served = {.limits = *limits};
	struct kw_remote_options options = plain_options();
	struct client clients[2], late, other;
	struct fixture fixture;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	client_connect(&fixture, &clients[0]);
	client_connect(&fixture, &clients[1]);
	assert_int_equal(client_open(&fixture, &late, &options), 0);
	WAIT(&fixture, late.closed);
	assert_int_equal(late.why.code, KW_E_REFUSED);
	assert_non_null(strstr(late.why.text, sentence));
	assert_non_null(strstr(fixture.why_rejected, sentence));
	kw_remote_free(late.remote);
	/* Another name is another matter; another peer cannot be had here. */
	strcpy(options.agent_name, "other");
	assert_int_equal(client_open(&fixture, &other, &options), 0);
	WAIT(&fixture, other.closed || other.ready);
	assert_int_equal(other.ready, limits->of_peer == 0);
	if (other.ready)
		client_close(&fixture, &other);
	else
		kw_remote_free(other.remote);
	client_close(&fixture, &clients[0]);
	WAIT(&fixture, kw_server_sessions(fixture.server, NULL, 0) == 1);
	client_connect(&fixture, &late);
	client_close(&fixture, &late);
	client_close(&fixture, &clients[1]);
	fixture_close(&fixture);
}

void one_name_or_peer_does_not_take_all_sessions(void **state)
{
	expect_one_too_many(&(struct kw_server_limits){.of_name = 2}, "remote.sessions_per_name");
	expect_one_too_many(&(struct kw_server_limits){.of_peer = 2}, "remote.sessions_per_peer");
}

/* A host that lost power, or a process that is stopped, does not keep its successor out. */
void a_silent_session_gives_way_to_its_name(void **state)
{
	const struct kw_server_options served = {.limits = {.of_name = 2}, .silent_us = 1};
	struct client clients[2], late;
	struct fixture fixture;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	client_connect(&fixture, &clients[0]);
	client_connect(&fixture, &clients[1]);
	client_connect(&fixture, &late);
	WAIT(&fixture, fixture.left == 1 && clients[0].closed + clients[1].closed == 1);
	assert_non_null(strstr(fixture.why_left, "gave way to a new connection of its name"));
	assert_int_equal(kw_server_sessions(fixture.server, NULL, 0), 2);
	assert_false(late.closed);
	client_close(&fixture, &late);
	for (int i = 0; i < 2; i++) {
		if (clients[i].closed)
			kw_remote_free(clients[i].remote);
		else
			client_close(&fixture, &clients[i]);
	}
	fixture_close(&fixture);
}

void disconnect_revokes_at_once(void **state)
{
	struct fixture fixture;
	struct client client, other;
	struct kw_session_info info;
	struct try t;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	WAIT(&fixture, fixture.joined == 1);
	info = fixture.session;
	client_connect(&fixture, &other);
	assert_false(kw_server_disconnect(fixture.server, info.id + 100, "nobody"));
	assert_true(kw_server_disconnect(fixture.server, info.id, "asked by the test"));
	assert_false(kw_server_disconnect(fixture.server, info.id, "twice"));
	assert_int_equal(kw_server_sessions(fixture.server, NULL, 0), 1);
	WAIT(&fixture, fixture.left == 1);
	assert_int_equal(fixture.session.id, info.id);
	assert_string_equal(fixture.why_left, "asked by the test");
	WAIT(&fixture, client.closed);
	assert_int_equal(client.why.code, KW_E_REFUSED);
	assert_non_null(strstr(client.why.text, "disconnected by the operator"));
	kw_remote_free(client.remote);
	/* The other one does not notice. */
	try_init(&t, 1, 11);
	try_read(&other, &t);
	WAIT(&fixture, t.told);
	try_check(&t);
	try_free(&t);
	client_close(&fixture, &other);
	fixture_close(&fixture);
}

void progress_arrives_and_holds_tombstones(void **state)
{
	struct kw_remote_progress progress = {
		.passed = 40, .applied = 41, .lag_us = 1234, .reads = 7, .bytes = 700};
	struct fixture fixture;
	struct client client;
	struct kw_session_info info;
	uint64_t since_us;

	fixture_start(&fixture);
	assert_true(kw_server_lowest_passed(fixture.server) == UINT64_MAX);
	client_connect(&fixture, &client);
	WAIT(&fixture, kw_server_sessions(fixture.server, &info, 1) == 1);
	assert_false(info.reported);
	assert_int_equal(info.state_us, info.connected_us);
	assert_int_equal(kw_server_lowest_passed(fixture.server), 0);
	strcpy(progress.state, "bootstrapping");
	kw_remote_report(client.remote, &progress);
	WAIT(&fixture, kw_server_sessions(fixture.server, &info, 1) == 1 && info.reported);
	assert_int_equal(info.progress.passed, 40);
	assert_int_equal(info.progress.applied, 41);
	assert_int_equal(info.progress.lag_us, 1234);
	assert_string_equal(info.progress.state, "bootstrapping");
	assert_true(info.state_us >= info.connected_us && info.state_us <= kw_wall_us());
	since_us = info.state_us;
	/* Where the proxy serves them itself it knows better. */
	assert_int_equal(
		info.reads, carrier == KW_CARRIER_TCP || carrier == KW_CARRIER_TLS ? 0 : 7);
	assert_int_equal(
		info.bytes, carrier == KW_CARRIER_TCP || carrier == KW_CARRIER_TLS ? 0 : 700);
	assert_int_equal(kw_server_lowest_passed(fixture.server), 40);
	/* Many reports in a row: the last one counts. */
	for (uint64_t i = 50; i <= 5000; i++) {
		progress.passed = i;
		kw_remote_report(client.remote, &progress);
	}
	WAIT(&fixture, kw_server_lowest_passed(fixture.server) == 5000);
	/* Other figures are no other state. */
	assert_int_equal(kw_server_sessions(fixture.server, &info, 1), 1);
	assert_int_equal(info.state_us, since_us);
	strcpy(progress.state, "warm");
	kw_remote_report(client.remote, &progress);
	WAIT(&fixture, kw_server_sessions(fixture.server, &info, 1) == 1 &&
			       strcmp(info.progress.state, "warm") == 0);
	assert_true(info.state_us > since_us && info.state_us <= kw_wall_us());
	client_close(&fixture, &client);
	WAIT(&fixture, kw_server_lowest_passed(fixture.server) == UINT64_MAX);
	fixture_close(&fixture);
}

/* As a proxy that waits for one ticket. */
static bool wants(void *arg, uint16_t ticket)
{
	return ticket == *(const uint16_t *)arg;
}

/* The newest of them wait for something else: that hides nobody. */
void each_session_is_asked_for_its_ticket(void **state)
{
	static const uint16_t tickets[] = {6, 1, 60000};
	struct fixture fixture;
	struct client clients[3];
	uint16_t none = 8;

	fixture_start(&fixture);
	for (int i = 0; i < 3; i++) {
		const struct kw_remote_progress progress = {.ticket = tickets[i]};

		client_connect(&fixture, &clients[i]);
		WAIT(&fixture, fixture.joined == i + 1);
		assert_false(kw_server_any_ticket(fixture.server, wants, (void *)&tickets[i]));
		kw_remote_report(clients[i].remote, &progress);
		WAIT(&fixture, kw_server_any_ticket(fixture.server, wants, (void *)&tickets[i]));
	}
	for (int i = 0; i < 3; i++)
		assert_true(kw_server_any_ticket(fixture.server, wants, (void *)&tickets[i]));
	assert_false(kw_server_any_ticket(fixture.server, wants, &none));
	for (int i = 0; i < 3; i++)
		client_close(&fixture, &clients[i]);
	fixture_close(&fixture);
}

void a_peer_that_says_nothing_is_let_go(void **state)
{
	const struct kw_server_options served = {.handshake_timeout_ms = 50};
	struct fixture fixture;
	int fd, half;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	fd = raw_socket(&fixture.address);
	half = raw_socket(&fixture.address);
	assert_int_equal(send(half, "KWH1\1", 5, 0), 5);
	WAIT(&fixture, fixture.rejected == 2);
	assert_non_null(strstr(fixture.why_rejected, "deadline of 50 ms"));
	assert_int_equal(recv(fd, &(char){0}, 1, 0), 0);
	close(fd);
	close(half);
	fixture_close(&fixture);
}

/* A connection that says HELLO and then nothing. */
static int greeter(struct fixture *fixture)
{
	int fd = raw_socket(&fixture->address);
	const struct kw_channel channel = raw_channel(fd, &fixture->address);
	uint8_t nonce[KW_NONCE_BYTES] = {1};
	const struct kw_handshake_options options = {.name = "greeter",
		.role = KW_ROLE_AGENT,
		.channel = &channel,
		.layout_version = KW_LAYOUT_VERSION,
		.depth = 4,
		.nonce = nonce};
	struct kw_handshake handshake;
	struct kw_slice hello;

	kw_handshake_init_agent(&handshake, &options);
	hello = kw_handshake_output(&handshake);
	assert_int_equal(send(fd, hello.data, hello.length, 0), (ssize_t)hello.length);
	return fd;
}

static bool is_open(int fd)
{
	uint8_t bytes[KW_HANDSHAKE_MESSAGE_MAX];
	ssize_t got;

	while ((got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
		continue;
	return got < 0 && errno == EAGAIN;
}

void silence_has_a_shorter_deadline_than_a_handshake(void **state)
{
	const struct kw_server_options served = {
		.handshake_timeout_ms = 3500, .hello_timeout_ms = 500};
	struct fixture fixture;
	int silent, said;
	uint64_t start_us;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	start_us = kw_clock_us();
	silent = raw_socket(&fixture.address);
	said = greeter(&fixture);
	WAIT(&fixture, fixture.rejected == 1);
	assert_non_null(strstr(fixture.why_rejected, "deadline of 500 ms"));
	assert_false(is_open(silent));
	assert_true(is_open(said));
	WAIT(&fixture, fixture.rejected == 2);
	assert_true(kw_clock_us() - start_us >= 3490000);
	assert_non_null(strstr(fixture.why_rejected, "deadline of 3500 ms"));
	assert_false(is_open(said));
	close(silent);
	close(said);
	fixture_close(&fixture);
}

#define STRANGERS 350 /* more than there are slots */

/* Whoever holds connections open and says nothing must not keep agents out. */
void strangers_who_hold_every_slot_give_way(void **state)
{
	const struct kw_server_options served = {
		.handshake_timeout_ms = 60000, .hello_timeout_ms = 60000};
	int strangers[STRANGERS], said, left = 0;
	struct kw_server_stats stats;
	struct fixture fixture;
	struct client client;
	uint64_t start_us;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	said = greeter(&fixture);
	for (int i = 0; i < STRANGERS; i++) {
		strangers[i] = i % 3 == 0 ? greeter(&fixture) : raw_socket(&fixture.address);
		if (i % 8 == 0)
			uv_run(&fixture.loop, UV_RUN_NOWAIT);
	}
	start_us = kw_clock_us();
	client_connect(&fixture, &client);
	assert_true(kw_clock_us() - start_us < 5000000);
	assert_non_null(strstr(fixture.why_rejected, "gave way"));
	/* The oldest went, whether or not they had said HELLO. */
	assert_false(is_open(said));
	for (int i = 0; i < STRANGERS; i++) {
		bool open = is_open(strangers[i]);

		assert_true(open || left == 0);
		left += open;
	}
	assert_int_equal(left, KW_SLOTS_MAX - 1);
	kw_server_stats(fixture.server, &stats);
	assert_int_equal(stats.rejected, 1 + STRANGERS - left);
	client_close(&fixture, &client);
	for (int i = 0; i < STRANGERS; i++)
		close(strangers[i]);
	close(said);
	fixture_close(&fixture);
}

void strangers_at_one_listener_do_not_concern_another(void **state)
{
	const struct kw_server_options served = {
		.handshake_timeout_ms = 60000, .hello_timeout_ms = 60000};
	struct kw_address first, second;
	struct fixture fixture;
	struct client client;
	struct kw_error error;
	int strangers[64];
	char text[128];

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	first = fixture.address;
	snprintf(text, sizeof text, "shm://%s/other", fixture.folder);
	assert_int_equal(kw_address_parse(text, &second, &error), 0);
	assert_int_equal(kw_server_listen(fixture.server, &second, &error), 0);
	for (int i = 0; i < 64; i++) {
		strangers[i] = raw_socket(&first);
		uv_run(&fixture.loop, UV_RUN_NOWAIT);
	}
	fixture.address = second;
	client_connect(&fixture, &client);
	assert_int_equal(fixture.rejected, 0);
	client_close(&fixture, &client);
	for (int i = 0; i < 64; i++)
		close(strangers[i]);
	fixture.address = first;
	fixture_close(&fixture);
}
