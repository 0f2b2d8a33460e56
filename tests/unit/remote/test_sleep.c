/* Agents that sleep until the proxy has published something: over shm. */
#include "fixture.h"

#include "remote/socket.h"

#include <sys/socket.h>

#define AGENTS (2 * KW_SERVER_WAKES + 5)

static void settle(struct fixture *fixture)
{
	for (int i = 0; i < 20; i++)
		uv_run(&fixture->loop, UV_RUN_NOWAIT);
}

/* The proxy has heard that the agent sleeps: it answers nothing, so what comes after it does. */
static void sleep_heard(struct fixture *fixture, struct client *client, uint64_t publication)
{
	struct kw_remote_progress progress = {.passed = publication, .state = "asleep"};
	struct kw_session_info info;

	kw_remote_sleep(client->remote, publication);
	kw_remote_report(client->remote, &progress);
	WAIT(fixture, kw_server_sessions(fixture->server, &info, 1) == 1 &&
			      info.progress.passed == publication);
	assert_true(kw_remote_is_asleep(client->remote));
}

static void a_publication_wakes_an_agent_that_sleeps(void **state)
{
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	assert_true(client.info.wakes);
	kw_server_published(fixture.server, 7);
	settle(&fixture);
	assert_int_equal(client.awake, 0); /* it does not sleep */
	for (uint64_t publication = 7; publication < 10; publication++) {
		sleep_heard(&fixture, &client, publication);
		kw_server_published(fixture.server, publication);
		settle(&fixture);
		assert_int_equal(client.awake, (int)publication - 7); /* it knows this one */
		kw_server_published(fixture.server, publication + 1);
		WAIT(&fixture, client.awake == (int)publication - 6);
		assert_false(kw_remote_is_asleep(client.remote));
	}
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

static void an_agent_that_missed_one_is_woken_at_once(void **state)
{
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	kw_server_published(fixture.server, 100);
	kw_remote_sleep(client.remote, 99);
	WAIT(&fixture, client.awake == 1);
	kw_remote_sleep(client.remote, 99);
	kw_remote_sleep(client.remote, 99); /* harmless: it is said once */
	WAIT(&fixture, client.awake == 2);
	settle(&fixture);
	assert_int_equal(client.awake, 2);
	assert_int_equal(client.closed, 0);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

static void all_are_woken_however_many_sleep(void **state)
{
	static struct client clients[AGENTS];
	struct fixture fixture;
	int awake;

	fixture_start(&fixture);
	for (int i = 0; i < AGENTS; i++) {
		client_connect(&fixture, &clients[i]);
		kw_remote_sleep(clients[i].remote, 1);
	}
	settle(&fixture);
	client_close(&fixture, &clients[0]); /* one leaves while it sleeps */
	WAIT(&fixture, fixture.left == 1);
	kw_server_published(fixture.server, 2);
	for (int i = 1; i < AGENTS; i++)
		WAIT(&fixture, clients[i].awake == 1);
	assert_int_equal(fixture.wishes, 0); /* nobody is looked for that waits for a ticket */
	kw_server_published(fixture.server, 3);
	settle(&fixture);
	awake = 0;
	for (int i = 1; i < AGENTS; i++)
		awake += clients[i].awake;
	assert_int_equal(awake, AGENTS - 1);
	for (int i = 1; i < AGENTS; i++)
		client_close(&fixture, &clients[i]);
	fixture_close(&fixture);
}

static void report(struct client *client, uint16_t ticket)
{
	const struct kw_remote_progress progress = {.ticket = ticket, .state = "warm"};

	kw_remote_report(client->remote, &progress);
}

static bool is_heard(struct fixture *fixture, uint16_t ticket)
{
	struct kw_session_info infos[4];
	int count = kw_server_sessions(fixture->server, infos, 4);

	for (int i = 0; i < count; i++)
		if (infos[i].reported && infos[i].progress.ticket == ticket)
			return true;
	return false;
}

/* Tickets of others are no news: a wish of one agent must not cost all others a look each. */
static void a_ticket_wakes_those_that_wait_for_one(void **state)
{
	struct fixture fixture;
	struct client waits, rests;

	fixture_start(&fixture);
	client_connect(&fixture, &waits);
	client_connect(&fixture, &rests);
	report(&waits, 4);
	WAIT(&fixture, is_heard(&fixture, 4));
	kw_remote_sleep(rests.remote, 1);
	kw_remote_sleep(waits.remote, 1);
	settle(&fixture);
	for (uint64_t publication = 2; publication < 20; publication++) {
		kw_server_ticket_moved(fixture.server, publication);
		WAIT(&fixture, waits.awake == (int)publication - 1);
		kw_remote_sleep(waits.remote, publication);
		settle(&fixture);
	}
	assert_int_equal(rests.awake, 0);
	kw_server_published(fixture.server, 20);
	WAIT(&fixture, waits.awake == 19 && rests.awake == 1);
	client_close(&fixture, &waits);
	client_close(&fixture, &rests);
	fixture_close(&fixture);
}

/* It may have passed between the look that drew it and the report. */
static void an_agent_that_waits_for_a_ticket_misses_none(void **state)
{
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	report(&client, 0);
	WAIT(&fixture, is_heard(&fixture, 0));
	kw_server_ticket_moved(fixture.server, 100);
	kw_remote_sleep(client.remote, 99);
	settle(&fixture);
	assert_int_equal(client.awake, 0);
	report(&client, 4); /* while it sleeps */
	WAIT(&fixture, client.awake == 1);
	kw_remote_sleep(client.remote, 99); /* while it waits */
	WAIT(&fixture, client.awake == 2);
	kw_remote_sleep(client.remote, 100);
	settle(&fixture);
	assert_int_equal(client.awake, 2);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

static int raw_sleeper(struct fixture *fixture, bool sleeps)
{
	const struct raw_options options = {.sleeps = sleeps};
	struct kw_error error;
	int code, fd = raw_connect(fixture, &options, &code, &error);

	assert_int_equal(code, 0);
	WAIT(fixture, fixture->joined == 1);
	return fd;
}

static void send_sleep(int fd, uint64_t publication)
{
	struct kw_frame_sleep frame;

	kw_frame_encode_sleep(&frame, publication);
	assert_int_equal(send(fd, &frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
}

static void expect_violation(struct fixture *fixture)
{
	struct kw_server_stats stats;

	WAIT(fixture, fixture->left == 1);
	if (!strstr(fixture->why_left, "wish to sleep"))
		fail_msg("\"%s\"", fixture->why_left);
	kw_server_stats(fixture->server, &stats);
	assert_int_equal(stats.bad_frames, 1);
}

static void only_an_agent_that_was_granted_it_may_sleep(void **state)
{
	struct fixture fixture;
	int fd;

	fixture_start(&fixture);
	fd = raw_sleeper(&fixture, false);
	send_sleep(fd, 1);
	expect_violation(&fixture);
	close(fd);
	fixture_close(&fixture);
}

static void a_second_wish_before_the_wake_ends_the_session(void **state)
{
	struct fixture fixture;
	int fd;

	fixture_start(&fixture);
	fd = raw_sleeper(&fixture, true);
	send_sleep(fd, 1);
	send_sleep(fd, 1);
	expect_violation(&fixture);
	close(fd);
	fixture_close(&fixture);
}

/* Its socket fills up: the proxy neither waits nor ends it, and it is gone without a trace later.
 */
static void a_sleeper_that_does_not_read_costs_no_wait(void **state)
{
	struct fixture fixture;
	int fd;

	fixture_start(&fixture);
	fd = raw_sleeper(&fixture, true);
	for (uint64_t publication = 1; publication < 20000; publication++) {
		kw_server_published(fixture.server, publication + 1);
		send_sleep(fd, publication);
		if (publication % 16 == 0)
			uv_run(&fixture.loop, UV_RUN_NOWAIT);
		if (publication % 4096 == 0)
			settle(&fixture);
	}
	assert_int_equal(fixture.left, 0);
	close(fd);
	WAIT(&fixture, fixture.left == 1);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_publication_wakes_an_agent_that_sleeps),
		cmocka_unit_test(an_agent_that_missed_one_is_woken_at_once),
		cmocka_unit_test(all_are_woken_however_many_sleep),
		cmocka_unit_test(a_ticket_wakes_those_that_wait_for_one),
		cmocka_unit_test(an_agent_that_waits_for_a_ticket_misses_none),
		cmocka_unit_test(only_an_agent_that_was_granted_it_may_sleep),
		cmocka_unit_test(a_second_wish_before_the_wake_ends_the_session),
		cmocka_unit_test(a_sleeper_that_does_not_read_costs_no_wait),
	};

	carrier = KW_CARRIER_SHM;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
