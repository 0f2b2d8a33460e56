/* What a daemon remembers of addresses where it could not connect. */
#include "port/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A server that answers each connection with the same words, in a thread of its own. */
struct server {
	int fd;
	char port[KW_PORT_NUMBER];
	const char *words;
	atomic_int connections;
	uv_thread_t thread;
};

static void serve(void *arg)
{
	struct server *server = arg;
	char bytes[256];
	int fd;

	while ((fd = accept(server->fd, NULL, NULL)) >= 0) {
		atomic_fetch_add(&server->connections, 1);
		if (recv(fd, bytes, sizeof bytes, 0) > 0)
			(void)!write(fd, server->words, strlen(server->words));
		close(fd);
	}
}

static void start(struct server *server, const char *words)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof address;

	*server = (struct server){.words = words};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server->fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(server->fd, 8), 0);
	assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &length), 0);
	snprintf(server->port, sizeof server->port, "%u", ntohs(address.sin_port));
	assert_int_equal(uv_thread_create(&server->thread, serve, server), 0);
}

static void stop(struct server *server)
{
	shutdown(server->fd, SHUT_RDWR);
	uv_thread_join(&server->thread);
	close(server->fd);
}

static void open_memory(uv_loop_t *loop, struct kw_port_memory *memory)
{
	uv_loop_init(loop);
	kw_port_memory_init(memory, loop);
}

static void close_memory(uv_loop_t *loop, struct kw_port_memory *memory)
{
	kw_port_memory_close(memory);
	uv_run(loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(loop), 0);
}

static void what_listens_there_is_known_at_the_next_try(void **state)
{
	struct kw_port_memory memory;
	struct server server;
	uv_loop_t loop;

	start(&server, "HTTP/1.1 400 Bad Request\r\n");
	open_memory(&loop, &memory);
	assert_int_equal(kw_port_ask(&memory, "127.0.0.1", server.port), KW_PORT_UNKNOWN);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(kw_port_ask(&memory, "127.0.0.1", server.port), KW_PORT_HTTP);
	close_memory(&loop, &memory);
	stop(&server);
}

static void a_server_in_trouble_is_not_asked_again_and_again(void **state)
{
	struct kw_port_memory memory;
	struct server server;
	uv_loop_t loop;

	start(&server, "+PONG\r\n*0\r\n");
	open_memory(&loop, &memory);
	for (int i = 0; i < 20; i++)
		kw_port_ask(&memory, "127.0.0.1", server.port);
	uv_run(&loop, UV_RUN_DEFAULT);
	for (int i = 0; i < 20; i++)
		assert_int_equal(kw_port_ask(&memory, "127.0.0.1", server.port), KW_PORT_REDIS);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(atomic_load(&server.connections), 1);
	close_memory(&loop, &memory);
	stop(&server);
}

static void an_end_during_a_look_waits_for_nothing_of_it(void **state)
{
	struct kw_port_memory memory;
	struct server server;
	uv_loop_t loop;

	start(&server, "HTTP/1.1 400 Bad Request\r\n");
	open_memory(&loop, &memory);
	kw_port_ask(&memory, "127.0.0.1", server.port);
	kw_port_memory_close(&memory);
	assert_int_equal(kw_port_ask(&memory, "127.0.0.1", server.port), KW_PORT_UNKNOWN);
	memset(&memory, 0, sizeof memory);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	stop(&server);
}

static void the_address_asked_for_longest_ago_gives_way(void **state)
{
	struct kw_port_memory memory;
	char port[KW_PORT_NUMBER];
	struct server server;
	uv_loop_t loop;

	start(&server, "HTTP/1.1 400 Bad Request\r\n");
	open_memory(&loop, &memory);
	kw_port_ask(&memory, "127.0.0.1", server.port);
	for (int i = 1; i < KW_PORT_PLACES; i++) {
		snprintf(port, sizeof port, "%d", i); /* nobody listens there */
		kw_port_ask(&memory, "127.0.0.1", port);
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(kw_port_ask(&memory, "127.0.0.1", server.port), KW_PORT_HTTP);
	kw_port_ask(&memory, "127.0.0.2", "1"); /* port 1 of the other host goes */
	assert_int_equal(kw_port_ask(&memory, "127.0.0.1", server.port), KW_PORT_HTTP);
	close_memory(&loop, &memory);
	stop(&server);
}

static void none_and_what_is_no_address_are_not_looked_at(void **state)
{
	static const char many[] = "123456789";
	struct kw_port_memory memory = {0};

	assert_int_equal(kw_port_ask(NULL, "127.0.0.1", "1"), KW_PORT_UNKNOWN);
	assert_int_equal(kw_port_ask(&memory, "127.0.0.1", "1"), KW_PORT_UNKNOWN);
	memory.loop = (uv_loop_t *)&memory; /* it would be used */
	assert_int_equal(kw_port_ask(&memory, "127.0.0.1", many), KW_PORT_UNKNOWN);
	assert_int_equal(kw_port_ask(&memory, "", "1"), KW_PORT_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_listens_there_is_known_at_the_next_try),
		cmocka_unit_test(a_server_in_trouble_is_not_asked_again_and_again),
		cmocka_unit_test(an_end_during_a_look_waits_for_nothing_of_it),
		cmocka_unit_test(the_address_asked_for_longest_ago_gives_way),
		cmocka_unit_test(none_and_what_is_no_address_are_not_looked_at),
	};

	return cmocka_run_group_tests_name("port-memory", tests, NULL, NULL);
}
