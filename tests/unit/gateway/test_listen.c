/* Listening on a name: each address that it has is listened on, or the start is refused. */
#include "../redis/ports.h"
#include "gateway/serve/frontend.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define NAME "tcp://many.example:6379"
#define MOST 4

static struct sockaddr_in addresses[MOST];
static struct addrinfo found[MOST];
static int free_port;

int __wrap_getaddrinfo(
	const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **result);
void __wrap_freeaddrinfo(struct addrinfo *list);

int __wrap_getaddrinfo(
	const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **result)
{
	assert_string_equal(host, "many.example");
	*result = found;
	return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
	assert_ptr_equal(list, found);
}

/* What the name has from now on; ended by NULL. */
static void resolve(const char *const *numbers)
{
	for (int i = 0; numbers[i]; i++) {
		assert_true(i < MOST);
		addresses[i] = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_port = htons((uint16_t)free_port)};
		assert_int_equal(inet_pton(AF_INET, numbers[i], &addresses[i].sin_addr), 1);
		found[i] = (struct addrinfo){.ai_family = AF_INET,
			.ai_addrlen = sizeof addresses[i],
			.ai_addr = (struct sockaddr *)&addresses[i],
			.ai_next = numbers[i + 1] ? &found[i + 1] : NULL};
	}
}

static int take_port(const char *number)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t length = sizeof name;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, number, &name.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &length), 0);
	free_port = ntohs(name.sin_port);
	return fd;
}

static bool is_open(const char *number)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)free_port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), code;

	inet_pton(AF_INET, number, &name.sin_addr);
	code = connect(fd, (struct sockaddr *)&name, sizeof name);
	close(fd);
	return code == 0;
}

static void on_closed(void *arg)
{
	*(bool *)arg = true;
}

static int listen_once(const char *const *numbers, const char *const *open, struct kw_error *error)
{
	struct kw_frontend_options options = {.max_clients = 10, .max_buffer_bytes = 1 << 20};
	struct kw_frontend *server;
	bool closed = false;
	uv_loop_t loop;
	int code;

	assert_int_equal(uv_loop_init(&loop), 0);
	options.loop = &loop;
	server = kw_frontend_new(&options);
	resolve(numbers);
	code = kw_frontend_listen(server, NAME, &kw_protocol_resp, error);
	for (int i = 0; open && open[i]; i++)
		if (!is_open(open[i]))
			fail_msg("%s is not listened on", open[i]);
	kw_frontend_close(server, on_closed, &closed);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(closed);
	assert_int_equal(uv_loop_close(&loop), 0);
	return code;
}

static void each_address_of_a_name_is_listened_on(void **state)
{
	/* One of them twice, and one that this host does not have. */
	static const char *const numbers[] = {
		"203.0.113.77", "127.0.0.1", "127.0.0.2", "127.0.0.1", NULL};
	static const char *const open[] = {"127.0.0.1", "127.0.0.2", NULL};
	struct kw_error error = {0};

	free_port = test_free_port();
	if (listen_once(numbers, open, &error))
		fail_msg("%s", error.text);
}

static void an_address_that_is_taken_refuses_the_start(void **state)
{
	static const char *const numbers[] = {"127.0.0.1", "127.0.0.2", NULL};
	struct kw_error error = {0};
	int taken = take_port("127.0.0.2");

	assert_int_equal(listen(taken, 1), 0);
	assert_int_not_equal(listen_once(numbers, NULL, &error), 0);
	assert_non_null(strstr(error.text, "choose another address or port"));
	close(taken);
}

static void a_name_of_other_hosts_alone_refuses_the_start(void **state)
{
	static const char *const numbers[] = {"203.0.113.77", NULL};
	struct kw_error error = {0};

	free_port = test_free_port();
	assert_int_not_equal(listen_once(numbers, NULL, &error), 0);
	assert_non_null(strstr(error.text, NAME));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_address_of_a_name_is_listened_on),
		cmocka_unit_test(an_address_that_is_taken_refuses_the_start),
		cmocka_unit_test(a_name_of_other_hosts_alone_refuses_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
