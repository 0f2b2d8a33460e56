/* The control socket: descriptors that come with a request, and calls that nobody waits for. */
#include "rpc_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void make_pipe(int ends[2])
{
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
}

/* What comes out of the pipe until all of its writing ends are closed. */
static void expect_pipe(int fd, const char *text)
{
	char bytes[64];
	size_t length = 0;

	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		ssize_t got;

		assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
		got = read(fd, bytes + length, sizeof bytes - 1 - length);
		assert_true(got >= 0);
		if (got == 0)
			break;
		length += (size_t)got;
	}
	bytes[length] = '\0';
	assert_string_equal(bytes, text);
	close(fd);
}

static bool take(struct kw_rpc_client *client, int fd)
{
	json_t *result;
	bool taken;

	assert_int_equal(kw_rpc_client_begin(client, "take", NULL, fd, &error), 0);
	assert_int_equal(kw_rpc_client_await(client, PATIENCE_MS, &result, &error), 0);
	taken = json_is_true(result);
	json_decref(result);
	return taken;
}

static void a_descriptor_goes_to_the_call_that_takes_it(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	int ends[2];

	assert_false(take(client, -1));
	for (int i = 0; i < 3; i++) {
		make_pipe(ends);
		assert_true(take(client, ends[1]));
		close(ends[1]);
		expect_pipe(ends[0], "taken\n");
		assert_false(take(client, -1)); /* it was given away */
	}
	kw_rpc_client_close(client);
}

/* Several in one message, as nobody should send them. */
static void send_many(int socket_fd, const int *fds, size_t count)
{
	static const char text[] = "{\"id\":1,\"method\":\"count\"}\n";
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr header;
	} control = {0};
	struct iovec part = {(void *)(uintptr_t)text, sizeof text - 1};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(count * sizeof(int))};

	control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	assert_int_equal(sendmsg(socket_fd, &message, MSG_NOSIGNAL), sizeof text - 1);
}

static void a_connection_keeps_one_descriptor_at_most(void **state)
{
	int raw = open_raw(*state), first[2], others[2], kept[2], many[8];

	make_pipe(first);
	make_pipe(others);
	make_pipe(kept);
	many[0] = first[1];
	for (int i = 1; i < 8; i++)
		many[i] = others[1];
	send_many(raw, many, 8);
	json_decref(receive_raw(raw));
	close(first[1]);
	close(others[1]);
	expect_pipe(others[0], ""); /* beyond one: closed at once */
	send_many(raw, &kept[1], 1);
	json_decref(receive_raw(raw));
	close(kept[1]);
	expect_pipe(first[0], ""); /* replaced by the next */
	close(raw);
	expect_pipe(kept[0], ""); /* closed with its connection */
}

static void a_call_in_two_parts_is_answered_when_it_is_ready(void **state)
{
	struct kw_rpc_client *client = open_client(*state), *other = open_client(*state);
	json_t *result;

	assert_int_equal(kw_rpc_client_begin(client, "hold", NULL, -1, &error), 0);
	assert_int_equal(kw_rpc_client_await(client, 0, &result, &error), KW_E_TIMEOUT);
	wait_held(other, 1);
	assert_int_equal(kw_rpc_client_await(client, 1, &result, &error), KW_E_TIMEOUT);
	assert_int_equal(call_text(other, "release", NULL, NULL), 0);
	assert_int_equal(kw_rpc_client_await(client, PATIENCE_MS, &result, &error), 0);
	assert_true(json_is_integer(result));
	json_decref(result);
	kw_rpc_client_close(client);
	kw_rpc_client_close(other);
}

static bool wanted(struct kw_rpc_client *client)
{
	json_t *result;
	bool answer;

	assert_int_equal(call_text(client, "wanted", NULL, &result), 0);
	answer = json_is_true(result);
	json_decref(result);
	return answer;
}

static void a_call_whose_client_left_is_not_wanted(void **state)
{
	struct kw_rpc_client *client = open_client(*state), *other = open_client(*state);

	assert_int_equal(kw_rpc_client_begin(client, "hold", NULL, -1, &error), 0);
	wait_held(other, 1);
	assert_true(wanted(other));
	kw_rpc_client_close(client);
	for (int i = 0; i < PATIENCE_MS && wanted(other); i++)
		usleep(1000);
	assert_false(wanted(other));
	kw_rpc_client_close(other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_descriptor_goes_to_the_call_that_takes_it),
		TEST(a_connection_keeps_one_descriptor_at_most),
		TEST(a_call_in_two_parts_is_answered_when_it_is_ready),
		TEST(a_call_whose_client_left_is_not_wanted),
	};

	return cmocka_run_group_tests_name("rpc passing", tests, NULL, NULL);
}
