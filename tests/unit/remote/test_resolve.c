/* A host's name and a port to addresses: at once, later, never, or not any more. */
#include "remote/resolve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <netinet/in.h>

static uv_loop_t loop;
static struct kw_resolve *resolve;
static int told;
static struct kw_error why;
static uint16_t port;

static void on_done(void *owner, struct addrinfo *addresses, const struct kw_error *error)
{
	assert_ptr_equal(owner, &told);
	assert_null(resolve);
	told++;
	if (!addresses) {
		why = *error;
		return;
	}
	port = ntohs(((struct sockaddr_in *)addresses->ai_addr)->sin_port);
	freeaddrinfo(addresses);
}

static void start(const char *host)
{
	struct kw_address address = {.carrier = KW_CARRIER_TCP, .port = 7471};

	strcpy(address.host, host);
	kw_resolve_start(&resolve, &loop, &address, on_done, &told);
}

static int begin(void **state)
{
	(void)state;
	told = port = 0;
	resolve = NULL;
	why = (struct kw_error){0};
	return uv_loop_init(&loop);
}

static int end(void **state)
{
	(void)state;
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

static void a_number_is_there_at_once(void **state)
{
	static const char *const hosts[] = {"127.0.0.1", "::1"};

	for (int i = 0; i < 2; i++) {
		start(hosts[i]);
		assert_int_equal(told, i + 1);
		assert_int_equal(port, 7471);
	}
}

static void a_name_is_told_from_the_loop(void **state)
{
	start("localhost");
	assert_int_equal(told, 0);
	assert_non_null(resolve);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(told, 1);
	assert_int_equal(port, 7471);
}

static void a_name_that_nobody_knows_is_a_sentence(void **state)
{
	start("no such host");
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(told, 1);
	assert_int_equal(why.code, KW_E_IO);
	assert_non_null(strstr(why.text, "host \"no such host\" cannot be resolved"));
}

/* Whether the pool has begun or not; and the place may be used again meanwhile. */
static void what_is_forgotten_is_not_told(void **state)
{
	kw_resolve_forget(&resolve);
	for (int i = 0; i < 20; i++) {
		start("localhost");
		kw_resolve_forget(&resolve);
		assert_null(resolve);
	}
	start("localhost");
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(told, 1);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		T(a_number_is_there_at_once),
		T(a_name_is_told_from_the_loop),
		T(a_name_that_nobody_knows_is_a_sentence),
		T(what_is_forgotten_is_not_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
