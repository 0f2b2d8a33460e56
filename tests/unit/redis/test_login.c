/* Getting in: addresses of a name, passwords, ACL users, and the sentences of those kept out. */
#include "base/clock.h"
#include "fixture.h"
#include "redis/connection.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

static struct test_server guarded, unguarded;
static char port[8];

static struct kw_redis_options login(
	const struct test_server *server, const char *username, const char *password)
{
	struct kw_redis_options options = test_options(server->address);

	strcpy(options.username, username);
	options.password = kw_slice_text(password);
	return options;
}

/* ---- names: their addresses are what the test says at each moment ---- */

#define NAME "a-name.invalid"

static const char *addresses_of_name[2]; /* NULL: it has one fewer */
static int resolved;

typedef int (*resolve_fn)(const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **found);

/* In the place of libc's, for libuv, too. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **found)
{
	resolve_fn resolve = (resolve_fn)dlsym(RTLD_NEXT, "getaddrinfo");
	int code;

	if (!host || strcmp(host, NAME) != 0)
		return resolve(host, service, hints, found);
	__atomic_add_fetch(&resolved, 1, __ATOMIC_SEQ_CST);
	code = resolve(addresses_of_name[0], service, hints, found);
	/* freeaddrinfo frees one by one. */
	if (code == 0 && addresses_of_name[1])
		code = resolve(addresses_of_name[1], service, hints, &(*found)->ai_next);
	return code;
}

static void expect_open(const struct kw_redis_options *options)
{
	struct test_client c;

	test_client_open(&c, options);
	test_client_run(&c, &c.ready, 1);
	kw_redis_words(c.redis, test_client_note, &c, "PING", NULL);
	test_client_run(&c, &c.replies, 1);
	assert_string_equal(test_client_heard(&c), "+PONG");
	test_client_stop(&c);
}

static void expect_refused(const struct kw_redis_options *options, enum kw_code code,
	const char *words, const char *remedy)
{
	struct test_client c;

	test_client_open(&c, options);
	/* Must never run as somebody else. */
	kw_redis_words(c.redis, test_client_note, &c, "SET", "intruder", "1", NULL);
	test_client_run(&c, &c.closed, 1);
	assert_int_equal(c.ready, 0);
	assert_int_equal(c.lost, 1);
	assert_int_equal(c.why.code, code);
	assert_non_null(strstr(c.why.text, options->address));
	assert_non_null(strstr(c.why.text, words));
	assert_non_null(strstr(c.why.text, remedy));
	test_client_stop(&c);
}

static void a_right_password_opens(void **state)
{
	struct kw_redis_options options = login(&guarded, "", "secret");

	expect_open(&options);
	options = login(&guarded, "default", "secret");
	expect_open(&options);
}

static void an_acl_user_opens(void **state)
{
	struct kw_redis_options options = login(&guarded, "kw", "pa ss\r\nword");

	expect_open(&options);
	options = login(&guarded, "nopass", "");
	expect_open(&options);
}

static void a_wrong_password_is_refused_with_the_remedy(void **state)
{
	struct kw_redis_options options = login(&guarded, "", "wrong");

	expect_refused(&options, KW_E_REFUSED, "WRONGPASS", "redis.password_file");
	options = login(&guarded, "nobody", "secret");
	expect_refused(&options, KW_E_REFUSED, "WRONGPASS", "redis.username");
}

static void a_missing_password_is_refused_with_the_remedy(void **state)
{
	struct kw_redis_options options = login(&guarded, "", "");

	expect_refused(&options, KW_E_REFUSED, "NOAUTH", "redis.password_file");
}

/* A sentinel has a user and a password of its own. */
static void the_remedy_names_the_keys_of_what_is_reached(void **state)
{
	struct kw_redis_options options = login(&guarded, "nobody", "secret");

	options.keys = "sentinel";
	expect_refused(&options, KW_E_REFUSED, "WRONGPASS",
		"check sentinel.username and the content of sentinel.password_file");
	options = login(&guarded, "", "");
	options.keys = "sentinel";
	expect_refused(&options, KW_E_REFUSED, "NOAUTH", "set sentinel.password_file");
}

/* The literal itself lies in memory that cannot be written, which is not searched. */
#define PASSWORD "unguessable-7391"

/* In this mapping of this process. */
static int count_between(int memory, unsigned long from, unsigned long to)
{
	uint8_t bytes[1 << 16]; /* on the stack, which is not searched */
	int found = 0;

	while (from < to) {
		size_t most = to - from < sizeof bytes ? to - from : sizeof bytes;
		ssize_t got = pread(memory, bytes, most, (off_t)from);
		const uint8_t *at = bytes;

		if (got <= 0)
			break;
		while ((at = memmem(
				at, (size_t)(bytes + got - at), PASSWORD, sizeof PASSWORD - 1))) {
			found++;
			at++;
		}
		from += (unsigned long)got;
	}
	return found;
}

/* A sanitizer's maps of the memory are terabytes, and hold none of it. */
#define SHADOW_BYTES (1UL << 32)

static int count_in_memory(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC), found = 0;
	unsigned long from, to;
	char line[512], mode[8];

	assert_non_null(maps);
	assert_true(memory >= 0);
	while (fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 && mode[1] == 'w' &&
			to - from < SHADOW_BYTES && !strstr(line, "[stack]"))
			found += count_between(memory, from, to);
	fclose(maps);
	close(memory);
	return found;
}

static void note_masterauth(void *arg, const struct kw_reply *reply)
{
	struct test_client *client = arg;

	assert_int_equal(reply->type, KW_REPLY_ARRAY);
	for (size_t i = 0; i + 1 < reply->count; i += 2)
		client->replies +=
			kw_slice_equal(reply->elements[i + 1].text, kw_slice_text(PASSWORD));
}

/* A user with the password, which is also the server's masterauth. */
static void add_spy(void)
{
	struct kw_slice user[] = {kw_slice_text("ACL"), kw_slice_text("SETUSER"),
		kw_slice_text("spy"), kw_slice_text("on"), kw_slice_text(">" PASSWORD),
		kw_slice_text("+@all"), kw_slice_text("~*")};
	struct kw_slice set[] = {kw_slice_text("CONFIG"), kw_slice_text("SET"),
		kw_slice_text("masterauth"), kw_slice_text(PASSWORD)};
	struct kw_redis_options options = login(&guarded, "", "secret");
	struct test_client c;

	test_client_open(&c, &options);
	kw_redis_send_secret(c.redis, test_client_note, &c, 7, user);
	kw_redis_send_secret(c.redis, test_client_note, &c, 4, set);
	test_client_run(&c, &c.replies, 2);
	assert_string_equal(test_client_heard(&c), "+OK +OK");
	test_client_stop(&c);
}

/*
 * The password of the login, and one in a reply: read in place, and by hiredis (more elements).
 * Commands that wait behind the login make the queue grow, so that its memory is given up.
 */
static void no_password_stays_in_memory_after_its_use(void **state)
{
	struct kw_slice ask[] = {kw_slice_text("CONFIG"), kw_slice_text("GET"),
		kw_slice_text("masterauth"), kw_slice_text("save"), kw_slice_text("port"),
		kw_slice_text("databases"), kw_slice_text("maxmemory")};
	struct kw_redis_options options = login(&guarded, "spy", PASSWORD);
	struct test_client c;

	add_spy();
	assert_int_equal(count_in_memory(), 0);
	test_client_open(&c, &options);
	for (int i = 0; i < 200; i++)
		kw_redis_words(c.redis, NULL, NULL, "PING", "a longer queue", NULL);
	assert_int_equal(count_in_memory(), 1); /* in the command that waits */
	test_client_run(&c, &c.ready, 1);
	assert_int_equal(count_in_memory(), 0);
	for (int asked = 3; asked <= 7; asked += 4) {
		c.replies = 0;
		kw_redis_send_secret(c.redis, note_masterauth, &c, asked, ask);
		test_client_run(&c, &c.replies, 1);
		assert_int_equal(count_in_memory(), 0);
	}
	test_client_stop(&c);
}

static void a_needless_password_is_refused_with_the_remedy(void **state)
{
	struct kw_redis_options options = login(&unguarded, "", "secret");

	expect_refused(&options, KW_E_REFUSED, "without any password", "leave out");
}

static void a_command_never_runs_as_another_user_when_auth_fails(void **state)
{
	struct kw_redis_options options = login(&unguarded, "nobody", "wrong");
	struct test_client c;

	expect_refused(&options, KW_E_REFUSED, "WRONGPASS", "redis.username");
	options = test_options(unguarded.address);
	test_client_open(&c, &options);
	kw_redis_words(c.redis, test_client_note, &c, "EXISTS", "intruder", NULL);
	test_client_run(&c, &c.replies, 1);
	assert_string_equal(test_client_heard(&c), ":0");
	test_client_stop(&c);
}

static void tcp_is_reached_by_number_and_by_name(void **state)
{
	static const char *const hosts[] = {"127.0.0.1", "localhost"};

	for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
		struct kw_redis_options options = {0};

		snprintf(options.address, sizeof options.address, "tcp://%s:%s", hosts[i], port);
		expect_open(&options);
	}
}

static void a_refusing_port_is_named_in_the_sentence(void **state)
{
	struct kw_redis_options options = {0};
	char words[64];

	snprintf(words, sizeof words, "127.0.0.1:%d: Connection refused", test_free_port());
	snprintf(options.address, sizeof options.address, "tcp://%.*s",
		(int)strcspn(words, " ") - 1, words);
	expect_refused(&options, KW_E_IO, words, "is the server running");
}

/* A port whose queue of connections is full: what comes now is swallowed without an answer. */
struct black_hole {
	struct sockaddr_in address;
	int listener, fillers[4];
};

static void dig_hole(struct black_hole *hole)
{
	socklen_t length = sizeof hole->address;

	hole->address = (struct sockaddr_in){.sin_family = AF_INET};
	hole->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	hole->listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(hole->listener, (void *)&hole->address, length), 0);
	assert_int_equal(getsockname(hole->listener, (void *)&hole->address, &length), 0);
	assert_int_equal(listen(hole->listener, 0), 0);
	for (int i = 0; i < 4; i++) {
		hole->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(hole->fillers[i], (void *)&hole->address, length);
	}
}

static void fill_in_hole(struct black_hole *hole)
{
	for (int i = 0; i < 4; i++)
		close(hole->fillers[i]);
	close(hole->listener);
}

static void an_address_that_swallows_is_given_up_in_time(void **state)
{
	struct kw_redis_options options = {0};
	struct black_hole hole;
	struct test_client c;
	uint64_t begin = kw_clock_us();

	dig_hole(&hole);
	snprintf(options.address, sizeof options.address, "tcp://127.0.0.1:%d",
		ntohs(hole.address.sin_port));
	options.connect_timeout_ms = 300;
	test_client_open(&c, &options);
	test_client_run(&c, &c.closed, 1);
	assert_int_equal(c.why.code, KW_E_TIMEOUT);
	assert_in_range(kw_clock_us() - begin, 300000, 6000000);
	test_client_stop(&c);
	fill_in_hole(&hole);
}

static void the_other_addresses_of_a_name_are_tried(void **state)
{
	struct kw_redis_options options = {0};
	struct black_hole hole;
	struct test_client c;

	dig_hole(&hole);
	snprintf(options.address, sizeof options.address, "tcp://127.0.0.1:%s", port);
	options.connect_timeout_ms = 3000;
	test_client_open(&c, &options);
	/* As if the name had these two addresses in front: one swallows, one refuses. */
	for (int i = 0; i < 2; i++) {
		memcpy(&c.redis->targets[i].address, &hole.address, sizeof hole.address);
		c.redis->targets[i].length = sizeof hole.address;
	}
	((struct sockaddr_in *)&c.redis->targets[1].address)->sin_port = htons(1);
	c.redis->target_count = 2;
	test_client_run(&c, &c.ready, 1);
	assert_int_equal(c.redis->target, 2);
	test_client_stop(&c);
	fill_in_hole(&hole);
}

/* A server that moves to another address is found: no address is remembered. */
static void a_name_is_resolved_again_for_each_connection(void **state)
{
	struct kw_redis_options options = {0};
	struct test_client c;

	snprintf(options.address, sizeof options.address, "tcp://" NAME ":%s", port);
	resolved = 0;
	addresses_of_name[0] = "127.0.0.9"; /* no server listens there */
	test_client_open(&c, &options);
	test_client_run(&c, &c.closed, 1);
	assert_int_equal(c.ready, 0);
	test_client_stop(&c);
	addresses_of_name[1] = "127.0.0.1";
	expect_open(&options);
	addresses_of_name[0] = "127.0.0.1";
	addresses_of_name[1] = NULL;
	expect_open(&options);
	assert_int_equal(resolved, 3);
}

static void a_name_without_address_is_named_in_the_sentence(void **state)
{
	struct kw_redis_options options = test_options("tcp://no-such-host.invalid:6379");
	struct test_client c;

	options.connect_timeout_ms = 3000;
	test_client_open(&c, &options);
	test_client_run(&c, &c.closed, 1);
	/* Without a resolver in reach it is the deadline that speaks. */
	assert_true(c.why.code == KW_E_IO || c.why.code == KW_E_TIMEOUT);
	assert_non_null(strstr(c.why.text, "resolve no-such-host.invalid"));
	test_client_stop(&c);
}

static void closing_while_a_name_is_resolved_is_safe(void **state)
{
	struct kw_redis_options options = test_options("tcp://no-such-host.invalid:6379");
	struct test_client c;

	test_client_open(&c, &options);
	uv_run(&c.loop, UV_RUN_NOWAIT);
	kw_redis_close(c.redis);
	test_client_run(&c, &c.closed, 1);
	/* A resolver that is quick may have said no in that one turn. */
	assert_true(c.why.code == KW_OK || c.why.code == KW_E_IO);
	test_client_stop(&c);
}

static void a_server_that_is_full_is_told_in_its_own_words(void **state)
{
	struct kw_redis_options options = test_options(unguarded.address);
	struct test_client c;

	test_client_open(&c, &options);
	kw_redis_words(c.redis, test_client_note, &c, "CONFIG", "SET", "maxclients", "1", NULL);
	test_client_run(&c, &c.replies, 1);
	expect_refused(&options, KW_E_IO, "max number of clients", "maxclients");
	kw_redis_words(c.redis, test_client_note, &c, "CONFIG", "SET", "maxclients", "100", NULL);
	test_client_run(&c, &c.replies, 2);
	assert_string_equal(test_client_heard(&c), "+OK +OK");
	test_client_stop(&c);
}

static int start(void **state)
{
	const char *const with_port[] = {"--port", port, "--bind", "127.0.0.1", NULL};
	const char *const with_users[] = {
		"--requirepass", "secret", "--user", "nopass", "on", "nopass", "+@all", "~*", NULL};
	struct kw_redis_options options;
	struct kw_slice argv[] = {kw_slice_text("ACL"), kw_slice_text("SETUSER"),
		kw_slice_text("kw"), kw_slice_text("on"), kw_slice_text(">pa ss\r\nword"),
		kw_slice_text("+@all"), kw_slice_text("~*")};
	struct test_client c;

	snprintf(port, sizeof port, "%d", test_free_port());
	test_server_start(&unguarded, with_port);
	test_server_start(&guarded, with_users);
	options = login(&guarded, "", "secret");
	test_client_open(&c, &options);
	kw_redis_send(c.redis, test_client_note, &c, 7, argv);
	test_client_run(&c, &c.replies, 1);
	assert_string_equal(test_client_heard(&c), "+OK");
	test_client_stop(&c);
	return 0;
}

static int stop(void **state)
{
	test_server_stop(&guarded);
	test_server_stop(&unguarded);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_right_password_opens),
		cmocka_unit_test(an_acl_user_opens),
		cmocka_unit_test(a_wrong_password_is_refused_with_the_remedy),
		cmocka_unit_test(a_missing_password_is_refused_with_the_remedy),
		cmocka_unit_test(the_remedy_names_the_keys_of_what_is_reached),
		cmocka_unit_test(no_password_stays_in_memory_after_its_use),
		cmocka_unit_test(a_needless_password_is_refused_with_the_remedy),
		cmocka_unit_test(a_command_never_runs_as_another_user_when_auth_fails),
		cmocka_unit_test(tcp_is_reached_by_number_and_by_name),
		cmocka_unit_test(a_refusing_port_is_named_in_the_sentence),
		cmocka_unit_test(an_address_that_swallows_is_given_up_in_time),
		cmocka_unit_test(the_other_addresses_of_a_name_are_tried),
		cmocka_unit_test(a_name_is_resolved_again_for_each_connection),
		cmocka_unit_test(a_name_without_address_is_named_in_the_sentence),
		cmocka_unit_test(closing_while_a_name_is_resolved_is_safe),
		cmocka_unit_test(a_server_that_is_full_is_told_in_its_own_words),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
