#include "fixture.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static int listen_at(struct fixture *fixture, const char *text, struct kw_error *error)
{
	struct kw_address address;

	assert_int_equal(kw_address_parse(text, &address, error), 0);
	return kw_server_listen(fixture->server, &address, error);
}

static void the_socket_is_the_groups_and_gone_at_the_end(void **state)
{
	struct fixture fixture;
	struct stat status;

	carrier = KW_CARRIER_SHM;
	fixture_start(&fixture);
	assert_int_equal(stat(fixture.address.path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0660);
	fixture_stop_server(&fixture);
	assert_int_not_equal(stat(fixture.address.path, &status), 0);
	fixture_close(&fixture);
}

static void a_stale_socket_is_replaced(void **state)
{
	const struct kw_server_options options = {0};
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct fixture fixture;
	struct client client;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	carrier = KW_CARRIER_SHM;
	fixture_open(&fixture);
	snprintf(name.sun_path, sizeof name.sun_path, "%s/s", fixture.folder);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
	close(fd);
	fixture_serve(&fixture, &options);
	client_connect(&fixture, &client);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

static void a_socket_that_answers_is_left_alone(void **state)
{
	const struct kw_server_options options = {0};
	const struct kw_server_handlers handlers = {0};
	struct fixture fixture;
	struct client client;
	struct kw_server *second;
	struct kw_error error;

	carrier = KW_CARRIER_SHM;
	fixture_start(&fixture);
	second = kw_server_new(&fixture.loop, &fixture.memory, &options, &handlers);
	assert_int_equal(kw_server_listen(second, &fixture.address, &error), KW_E_STATE);
	assert_non_null(strstr(error.text, "another process answers"));
	kw_server_close(second, NULL, NULL);
	client_connect(&fixture, &client);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

static void a_file_that_is_no_socket_is_left_alone(void **state)
{
	struct fixture fixture;
	struct kw_error error;
	char path[128], text[160];

	carrier = KW_CARRIER_SHM;
	fixture_start(&fixture);
	snprintf(path, sizeof path, "%s/file", fixture.folder);
	snprintf(text, sizeof text, "shm://%s", path);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(listen_at(&fixture, text, &error), KW_E_STATE);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
	snprintf(text, sizeof text, "shm://%s/none/s", fixture.folder);
	assert_int_equal(listen_at(&fixture, text, &error), KW_E_IO);
	assert_non_null(strstr(error.text, "directory"));
	fixture_close(&fixture);
}

static void another_process_file_is_not_removed_at_the_end(void **state)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct fixture fixture;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	carrier = KW_CARRIER_SHM;
	fixture_start(&fixture);
	strcpy(name.sun_path, fixture.address.path);
	unlink(name.sun_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
	fixture_stop_server(&fixture);
	assert_int_equal(access(name.sun_path, F_OK), 0);
	close(fd);
	fixture_close(&fixture);
}

static void without_a_secret_only_shm_is_listened_to(void **state)
{
	static const struct {
		const char *address, *sentence;
	} cases[] = {
		{"tcp://127.0.0.1:0", "open to every user of this host"},
		{"tcp://localhost:0", "open to every user of this host"},
		{"rdma://127.0.0.1:0", "open to every user of this host"},
		{"tcp://0.0.0.0:0", "open to other hosts"},
		{"tcp://[::]:0", "open to other hosts"},
		{"rdma://10.0.0.1:7471", "open to other hosts"},
	};
	struct kw_address address;
	struct kw_error error;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(kw_address_parse(cases[i].address, &address, &error), 0);
		assert_int_equal(
			kw_address_check_guard(&address, false, true, &error), KW_E_CONFIG);
		assert_non_null(strstr(error.text, cases[i].sentence));
		assert_non_null(strstr(error.text, "set auth.secret_file"));
		assert_non_null(strstr(error.text, "auth.allow_insecure=true"));
		assert_int_equal(
			kw_address_check_guard(&address, false, false, &error), KW_E_CONFIG);
		assert_non_null(strstr(error.text, "no proof of who listens there"));
		assert_int_equal(kw_address_check_guard(&address, true, true, &error), 0);
		assert_int_equal(kw_address_check_guard(&address, true, false, &error), 0);
	}
	assert_int_equal(kw_address_parse("shm:///run/x", &address, &error), 0);
	assert_int_equal(kw_address_check_guard(&address, false, true, &error), 0);
	assert_int_equal(kw_address_check_guard(&address, false, false, &error), 0);
}

/* The library asks, too, and not the configuration alone. */
static void a_server_and_a_remote_refuse_tcp_without_a_secret(void **state)
{
	const struct kw_server_options none = {0};
	const struct kw_server_options secret = {.secret = kw_slice_text("s")};
	const struct kw_server_options insecure = {.allow_insecure = true};
	const struct kw_server_options *const guarded[] = {&secret, &insecure};
	const struct kw_remote_options options = {.agent_name = "tester"};
	struct kw_server_handlers handlers;
	struct fixture fixture;
	struct client client;
	struct kw_error error;

	carrier = KW_CARRIER_TCP;
	fixture_open(&fixture);
	handlers = fixture_handlers(&fixture);
	fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &none, &handlers);
	assert_int_equal(listen_at(&fixture, "tcp://127.0.0.1:0", &error), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "auth.secret_file"));
	fixture_close(&fixture);
	for (int i = 0; i < 2; i++) {
		fixture_open(&fixture);
		handlers = fixture_handlers(&fixture);
		fixture.server =
			kw_server_new(&fixture.loop, &fixture.memory, guarded[i], &handlers);
		if (listen_at(&fixture, "tcp://0.0.0.0:0", &error) != 0)
			fail_msg("%s", error.text);
		assert_int_not_equal(kw_server_port(fixture.server, 0), 0);
		kw_address_parse("tcp://127.0.0.1:1", &fixture.address, &error);
		assert_int_equal(client_open(&fixture, &client, &options), KW_E_CONFIG);
		assert_non_null(strstr(client.why.text, "auth.secret_file"));
		fixture_close(&fixture);
	}
}

static void all_carriers_serve_at_once(void **state)
{
	struct fixture fixture;
	struct client client;
	struct kw_error error;
	struct try t;
	char text[128];

	carrier = KW_CARRIER_TCP;
	fixture_start(&fixture);
	snprintf(text, sizeof text, "shm://%s/s", fixture.folder);
	assert_int_equal(listen_at(&fixture, text, &error), 0);
	for (int i = 0; i < 2; i++) {
		client_connect(&fixture, &client);
		try_init(&t, 1, 1000);
		try_read(&client, &t);
		WAIT(&fixture, t.told);
		try_check(&t);
		try_free(&t);
		client_close(&fixture, &client);
		assert_int_equal(kw_address_parse(text, &fixture.address, &error), 0);
	}
	fixture_close(&fixture);
}

static void a_port_in_use_is_a_sentence(void **state)
{
	struct fixture fixture;
	struct kw_error error;
	char text[64];

	carrier = KW_CARRIER_TCP;
	fixture_start(&fixture);
	snprintf(text, sizeof text, "tcp://127.0.0.1:%u", kw_server_port(fixture.server, 0));
	assert_int_equal(listen_at(&fixture, text, &error), KW_E_IO);
	assert_non_null(strstr(error.text, "another process listens"));
	assert_non_null(strstr(error.text, text));
	fixture_close(&fixture);
}

#ifndef KW_HAVE_RDMA
static void rdma_says_which_carriers_there_are(void **state)
{
	const struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;
	struct kw_error error;

	carrier = KW_CARRIER_TCP;
	fixture_start(&fixture);
	assert_int_equal(listen_at(&fixture, "rdma://127.0.0.1:7471", &error), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "no rdma carrier"));
	assert_non_null(strstr(error.text, "shm://"));
	assert_non_null(strstr(error.text, "tcp://"));
	kw_address_parse("rdma://127.0.0.1:7471", &fixture.address, &error);
	assert_int_equal(client_open(&fixture, &client, &options), KW_E_CONFIG);
	assert_null(client.remote);
	kw_address_parse("tcp://127.0.0.1:0", &fixture.address, &error);
	assert_int_equal(client_open(&fixture, &client, &options), KW_E_CONFIG);
	fixture_close(&fixture);
}

#endif

static void a_server_without_listeners_closes_too(void **state)
{
	const struct kw_server_options options = {0};
	const struct kw_server_handlers handlers = {0};
	struct fixture fixture;

	carrier = KW_CARRIER_SHM;
	fixture_open(&fixture);
	fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &options, &handlers);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_socket_is_the_groups_and_gone_at_the_end),
		cmocka_unit_test(a_stale_socket_is_replaced),
		cmocka_unit_test(a_socket_that_answers_is_left_alone),
		cmocka_unit_test(a_file_that_is_no_socket_is_left_alone),
		cmocka_unit_test(another_process_file_is_not_removed_at_the_end),
		cmocka_unit_test(without_a_secret_only_shm_is_listened_to),
		cmocka_unit_test(a_server_and_a_remote_refuse_tcp_without_a_secret),
		cmocka_unit_test(all_carriers_serve_at_once),
		cmocka_unit_test(a_port_in_use_is_a_sentence),
#ifndef KW_HAVE_RDMA
		cmocka_unit_test(rdma_says_which_carriers_there_are),
#endif
		cmocka_unit_test(a_server_without_listeners_closes_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
