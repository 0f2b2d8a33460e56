/*
 * All parts of the stream against a real server: the handshake in each of its forms, each command
 * as it arrives, and strings as the server encodes them.
 *
 *   test_stream_servers [server]
 *
 * Environment: KW_LENGTH (1) times so many strings are compared, 1000 with compression and without.
 */
#include "payload_peer.h"
#include "rdb/payload.h"
#include "rdb/payload_string.h"
#include "redis/redis.h"
#include "stream/attach.h"
#include "stream/effects.h"
#include "told.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 30000 /* for one answer: the machine may be busy */
#define VALUES 1000
#define VALUE_BYTES 20000

static const char *binary = "/usr/bin/redis-server";
static struct peer peer;
static struct kw_repl_catalog *catalog;

/* ---- a reader of the stream ---- */

struct tap {
	int fd;
	struct kw_repl_attach attach;
	struct kw_repl_parser *parser;
	struct kw_repl_effects *effects;
	struct kw_buffer told;
};

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", peer.folder);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	return fd;
}

/* Times of the machine are told as 1. */
static void hear_batch(void *arg, const struct kw_repl_batch *batch)
{
	struct tap *tap = arg;

	for (size_t i = 0; i < batch->count; i++) {
		struct kw_repl_effect effect = batch->effects[i];

		effect.expires_ms = effect.expires_ms > 0;
		told_effect(&tap->told, &effect);
	}
	kw_buffer_append(&tap->told, "/", 1);
}

static void hear_command(void *arg, const struct kw_repl_command *command)
{
	struct tap *tap = arg;
	struct kw_error error;

	if (kw_repl_effects_take(tap->effects, command, &error))
		fail_msg("%s", error.text);
}

static void wanted(void *arg)
{
	kw_repl_attach_ack(&((struct tap *)arg)->attach);
}

static void flush_output(struct tap *tap)
{
	struct kw_buffer *out = &tap->attach.output;

	while (kw_buffer_length(out) > 0) {
		ssize_t put = write(tap->fd, kw_buffer_bytes(out), kw_buffer_length(out));

		assert_true(put > 0);
		kw_buffer_consume(out, (size_t)put);
	}
}

static void take(struct tap *tap, const uint8_t *bytes, size_t length)
{
	struct kw_error error;
	size_t used = 0;

	if (kw_repl_attach_state(&tap->attach) != KW_ATTACH_FOLLOWING) {
		if (kw_repl_attach_feed(&tap->attach, bytes, length, &used, &error))
			fail_msg("%s", error.text);
		if (kw_repl_attach_state(&tap->attach) != KW_ATTACH_FOLLOWING)
			return;
		if (tap->attach.full)
			kw_repl_effects_reset(tap->effects, tap->attach.offset);
		kw_repl_parser_restart(tap->parser, tap->attach.offset);
	}
	if (used == length)
		return;
	kw_repl_attach_heard(&tap->attach);
	if (kw_repl_parser_feed(tap->parser, bytes + used, length - used, &error))
		fail_msg("%s", error.text);
}

/* One turn: what is due is sent, and what comes within some milliseconds is taken. */
static void turn(struct tap *tap)
{
	struct pollfd ready = {.fd = tap->fd, .events = POLLIN};
	uint8_t bytes[4096];
	ssize_t got;

	kw_repl_attach_turn(&tap->attach, now_us());
	flush_output(tap);
	if (poll(&ready, 1, 5) <= 0)
		return;
	got = read(tap->fd, bytes, sizeof bytes);
	if (got <= 0)
		fail_msg("%s closed the stream", binary);
	take(tap, bytes, (size_t)got);
}

/* Attach, where the last one left off (id not empty), or anew. */
static void tap_attach(struct tap *tap, const char *id, uint64_t offset)
{
	struct kw_repl_attach_options options = {.offset = offset, .payload_most = 65536};
	uint64_t until = now_us() + WAIT_MS * UINT64_C(1000);

	snprintf(options.id, sizeof options.id, "%s", id);
	tap->fd = dial();
	kw_repl_attach_init(&tap->attach, &options);
	while (kw_repl_attach_state(&tap->attach) != KW_ATTACH_FOLLOWING && now_us() < until)
		turn(tap);
	assert_int_equal(kw_repl_attach_state(&tap->attach), KW_ATTACH_FOLLOWING);
}

static void tap_detach(struct tap *tap)
{
	close(tap->fd);
	kw_repl_attach_close(&tap->attach);
}

static void tap_open(struct tap *tap)
{
	static const struct kw_repl_bounds bounds = {1 << 20, 1 << 22, 1 << 16};
	const struct kw_repl_effects_options options = {
		.transaction_bytes = 1 << 20,
		.transaction_effects = 1000,
		.command_effects = 1000,
		.batch = hear_batch,
		.ack_wanted = wanted,
		.arg = tap,
	};

	*tap = (struct tap){.fd = -1};
	tap->parser = kw_repl_parser_new(&bounds, 0, hear_command, tap);
	tap->effects = kw_repl_effects_new(&options);
	kw_repl_effects_catalog(tap->effects, catalog);
}

static void tap_close(struct tap *tap)
{
	kw_repl_parser_free(tap->parser);
	kw_repl_effects_free(tap->effects);
	kw_buffer_close(&tap->told);
}

static uint64_t offset_of_server(char id[KW_REPL_ID_LENGTH + 1])
{
	struct kw_buffer info = {0};
	const char *at;
	uint64_t offset;

	peer_words(&peer, &info, "INFO", "replication", NULL);
	at = strstr(told_text(&info), "master_repl_offset:");
	assert_non_null(at);
	offset = strtoull(at + strlen("master_repl_offset:"), NULL, 10);
	at = strstr(told_text(&info), "master_replid:");
	assert_non_null(at);
	if (id)
		snprintf(id, KW_REPL_ID_LENGTH + 1, "%s", at + strlen("master_replid:"));
	kw_buffer_close(&info);
	return offset;
}

/* All that the server did until now; what was told since the last call. */
static const char *told_until_now(struct tap *tap)
{
	uint64_t offset = offset_of_server(NULL), until = now_us() + WAIT_MS * UINT64_C(1000);

	while (kw_repl_effects_offset(tap->effects) < offset && now_us() < until)
		turn(tap);
	assert_int_equal(kw_repl_effects_offset(tap->effects), offset);
	return told_text(&tap->told);
}

static void run(const char *text, char *refused, size_t room)
{
	struct told_command made;
	struct kw_slice argv[TOLD_WORDS];
	struct kw_buffer reply = {0};
	char type;

	told_command(&made, text);
	for (uint32_t i = 0; i < made.command.count; i++)
		argv[i] = made.words[i].text.data ? made.words[i].text : kw_slice("", 0);
	type = peer_command(&peer, &reply, (int)made.command.count, argv);
	refused[0] = '\0';
	if (type == '-')
		snprintf(refused, room, "%s", told_text(&reply));
	kw_buffer_close(&reply);
}

/* ---- the server ---- */

/* The reply to COMMAND is deep and large: it goes the way that it will go in the proxy. */
static bool hear_commands(void *arg, const struct kw_reply *reply)
{
	struct kw_error error;

	if (kw_repl_catalog_new(reply, &catalog, &error))
		fail_msg("%s", error.text);
	return true;
}

static void ask_commands(void)
{
	struct kw_reply_reader *reader = kw_reply_reader_new(hear_commands, NULL);
	struct kw_error error;
	uint8_t bytes[65536];
	int fd = dial();

	assert_int_equal(write(fd, "*1\r\n$7\r\nCOMMAND\r\n", 17), 17);
	while (!catalog) {
		ssize_t got = read(fd, bytes, sizeof bytes);

		assert_true(got > 0);
		if (kw_reply_reader_feed(reader, bytes, (size_t)got, &error))
			fail_msg("%s", error.text);
	}
	kw_reply_reader_free(reader);
	close(fd);
}

static int start_server(void **state)
{
	static const char *const options[] = {"--repl-diskless-sync", "yes",
		"--repl-diskless-sync-delay", "0", "--repl-backlog-size", "1mb", NULL};

	peer_start(&peer, binary, options);
	ask_commands();
	return 0;
}

static int stop_server(void **state)
{
	kw_repl_catalog_free(catalog);
	peer_stop(&peer);
	return 0;
}

/* ---- the tests ---- */

static void the_servers_own_list_of_commands_is_understood(void **state)
{
	print_message("%s: %zu commands\n", binary, kw_repl_catalog_count(catalog));
	assert_true(kw_repl_catalog_count(catalog) > 250);
}

struct arrival {
	const char *command;
	const char *told; /* one of these, with a bar between; NULL: only that it is no doubt */
};

/* As the primary sends them, to which one key after the other is done. */
static const struct arrival arrivals[] = {
	{"SET s v", "VALUE s=v;/"},
	{"SET s v EX 1000", "VALUE s=v at 1;/"},
	{"SET s v PX 1000000", "VALUE s=v at 1;/"},
	{"SET s w KEEPTTL", "VALUE s=w kept;/"},
	{"SET s v XX GET", "VALUE s=v;/"},
	{"SETEX s 1000 v", "VALUE s=v at 1;/"},
	{"PSETEX s 1000000 v", "VALUE s=v at 1;/"},
	{"GETEX s PERSIST", "EXPIRY s never;/"},
	{"GETEX s EX 1000", "EXPIRY s at 1;/"},
	{"GETSET s x", "VALUE s=x;/"},
	{"SETNX s2 v", "VALUE s2=v;/"},
	{"MSET a 1 b 2", "VALUE a=1;VALUE b=2;/"},
	{"MSETNX c 1 d 2", "VALUE c=1;VALUE d=2;/"},
	{"EXPIRE s 1000", "EXPIRY s at 1;/"},
	{"PEXPIRE s 2000000 GT", "EXPIRY s at 1;/"},
	{"EXPIREAT s 33000000000", "EXPIRY s at 1;/"},
	{"PERSIST s", "EXPIRY s never;/"},
	{"EXPIRE s -1", "DELETE s;/"},
	{"INCR a", "ADD a+1;/"},
	{"INCRBY a 5", "ADD a+5;/"},
	{"DECRBY a 5", "ADD a-5;/"},
	{"INCRBYFLOAT a 1.5", "VALUE a=3.5 kept;/"},
	{"APPEND b xyz", "APPEND b=xyz;/"},
	{"SETRANGE b 2 q", "WRITE b[2]=q;/"},
	{"SETBIT b 7 1", "TOUCH b;/"},
	{"GETDEL a", "DELETE a;/"},
	{"RENAME b e", "MOVE b>e;/"},
	{"RENAMENX e f", "MOVE e>f;/"},
	{"COPY f g", "COPY f>g;/"},
	{"COPY f g DB 3 REPLACE", "COPY f>3:g;/"},
	{"MOVE g 4", "MOVE g>4:g;/"},
	{"DEL f nothing", "DELETE f;DELETE nothing;/|DELETE f;/"},
	{"UNLINK c d", "DELETE c;DELETE d;/"},
	{"RPUSH l c a b", "TOUCH l;/"},
	{"LPOP l", "TOUCH l;/"},
	{"BLPOP l 0", "TOUCH l;/"},
	{"SORT l ALPHA STORE l2", "TOUCH l2;/"},
	{"LMOVE l l2 LEFT RIGHT", "TOUCH l;TOUCH l2;/"},
	{"SADD set a b c", "TOUCH set;/"},
	{"SPOP set", "TOUCH set;/"},
	{"SPOP set 5", "DELETE set;/|TOUCH set;/"},
	{"HSET h f 1 g 2", "TOUCH h;/"},
	{"HINCRBYFLOAT h f 0.5", "TOUCH h;/"},
	{"ZADD z 1 a 2 b", "TOUCH z;/"},
	{"ZUNIONSTORE z2 1 z", "TOUCH z2;/"},
	{"ZPOPMIN z", "TOUCH z;/"},
	{"ZMPOP 1 z2 MIN", "TOUCH z2;/"},
	{"GEOADD geo 1 2 m", "TOUCH geo;/"},
	{"GEORADIUS geo 1 2 3 m STORE geo2", "TOUCH geo2;/"},
	{"GEOSEARCHSTORE geo3 geo FROMMEMBER m BYRADIUS 1 m", "TOUCH geo3;/"},
	{"PFADD p a b", "TOUCH p;/"},
	{"PFADD p c", "TOUCH p;/"},
	{"PFCOUNT p", "TOUCH p;/"},
	{"PFMERGE p2 p", "TOUCH p2;/"},
	{"BITOP NOT bits p", "TOUCH bits;/"},
	{"XADD x 1-1 f v", "TOUCH x;/"},
	{"XGROUP CREATE x grp 0", "TOUCH x;/"},
	{"XREADGROUP GROUP grp me STREAMS x >", NULL},
	{"XACK x grp 1-1", "TOUCH x;/"},
	{"EVAL redis.call('set','e1','1');redis.call('incr','e1') 0", "VALUE e1=1;ADD e1+1;/"},
	{"EVAL redis.call('select','5');redis.call('set','e2','1') 0", "5:VALUE e2=1;/"},
	{"SWAPDB 3 4", "3:SWAP 4;/"},
	{"PUBLISH c m", ""},
	{"FLUSHDB", "FLUSH;/"},
	{"FLUSHALL", "*:FLUSHALL;/"},
};

/* The same of commands that only some servers have. */
static const struct arrival newer_arrivals[] = {
	{"SET n v IFEQ v", NULL},
	{"DELIFEQ n v", NULL},
	{"DELEX n IFEQ v", NULL},
	{"HSET hn a 1 b 2 c 3", "TOUCH hn;/"},
	{"HPEXPIRE hn 1000000 FIELDS 1 a", "TOUCH hn;/"},
	{"HPERSIST hn FIELDS 1 a", "TOUCH hn;/"},
	{"HSETEX hn EX 1000 FIELDS 1 a 2", "TOUCH hn;/"},
	{"HGETEX hn PERSIST FIELDS 1 a", "TOUCH hn;/"},
	{"HGETDEL hn FIELDS 1 a", "TOUCH hn;/"},
	{"HEXPIRE hn 0 FIELDS 1 b", "TOUCH hn;/"},
	{"VADD vn VALUES 3 1 2 3 one", "TOUCH vn;/"},
	{"VADD vn VALUES 3 1 2 4 two", "TOUCH vn;/"},
	{"VSETATTR vn one {}", "TOUCH vn;/"},
	{"VREM vn one", "TOUCH vn;/"},
};

static bool is_one_of(const char *told, const char *choices)
{
	for (const char *at = choices;; at += strcspn(at, "|") + 1) {
		size_t length = strcspn(at, "|");

		if (strlen(told) == length && memcmp(told, at, length) == 0)
			return true;
		if (at[length] == '\0')
			return false;
	}
}

/* A server that lacks the command must not have sent anything. */
static void assert_arrives(struct tap *tap, const struct arrival *one, bool may_lack)
{
	char refused[256];
	const char *told;

	kw_buffer_clear(&tap->told);
	run(one->command, refused, sizeof refused);
	told = told_until_now(tap);
	if (refused[0]) {
		if (!may_lack || told[0])
			fail_msg("%s: %s", one->command, refused);
		print_message("%s: not here: %s\n", binary, one->command);
		return;
	}
	if (one->told ? !is_one_of(told, one->told) : strstr(told, "DOUBT") != NULL)
		fail_msg("%s: %s, not %s", one->command, told,
			one->told ? one->told : "anything but DOUBT");
}

static void each_command_arrives_as_its_meaning(void **state)
{
	struct tap tap;

	tap_open(&tap);
	tap_attach(&tap, "", 0);
	assert_true(tap.attach.full);
	told_until_now(&tap);
	for (size_t i = 0; i < sizeof arrivals / sizeof *arrivals; i++)
		assert_arrives(&tap, &arrivals[i], false);
	for (size_t i = 0; i < sizeof newer_arrivals / sizeof *newer_arrivals; i++)
		assert_arrives(&tap, &newer_arrivals[i], true);
	tap_detach(&tap);
	tap_close(&tap);
}

/* SET, DUMP, and what the stream tells of it. */
static void dump_one(struct tap *tap, struct kw_buffer *payload)
{
	peer_words(&peer, NULL, "SET", "k", "value", NULL);
	peer_words(&peer, payload, "DUMP", "k", NULL);
	told_until_now(tap);
	kw_buffer_clear(&tap->told);
}

/* hint: of REPLACE and two more words; NULL: without them. */
static void assert_restored(
	struct tap *tap, const struct kw_buffer *payload, const char *ttl, const char *const *hint)
{
	struct kw_slice words[7] = {kw_slice_text("RESTORE"), kw_slice_text("r"),
		kw_slice_text(ttl), kw_slice(kw_buffer_bytes(payload), kw_buffer_length(payload))};
	int count = 4;

	for (int i = 0; hint && i < 3; i++)
		words[count++] = kw_slice_text(hint[i]);
	peer_command(&peer, NULL, count, words);
	told_until_now(tap);
	assert_memory_equal(kw_buffer_bytes(&tap->told), "PAYLOAD r=", 10);
	assert_memory_equal(kw_buffer_bytes(&tap->told) + 10, kw_buffer_bytes(payload),
		kw_buffer_length(payload));
	kw_buffer_clear(&tap->told);
}

static void a_restored_payload_and_a_transaction_arrive_whole(void **state)
{
	static const char *const commands[] = {"MULTI", "SET a 1", "SELECT 2", "SET a 2", "EXEC"};
	struct kw_buffer payload = {0};
	char refused[256];
	struct tap tap;

	tap_open(&tap);
	tap_attach(&tap, "", 0);
	dump_one(&tap, &payload);
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		run(commands[i], refused, sizeof refused);
	assert_string_equal(told_until_now(&tap), "VALUE a=1;2:VALUE a=2;/");
	kw_buffer_clear(&tap.told);
	peer_words(&peer, NULL, "SELECT", "0", NULL);
	assert_restored(&tap, &payload, "100000", NULL);
	kw_buffer_close(&payload);
	tap_detach(&tap);
	tap_close(&tap);
}

/* What a migration sends along for the eviction of the server, which a table has no use for. */
static void a_restored_payload_comes_with_the_hints_of_its_key(void **state)
{
	static const char *const hints[][3] = {
		{"REPLACE", "IDLETIME", "7"}, {"REPLACE", "FREQ", "4"}};
	struct kw_buffer payload = {0};
	struct tap tap;

	tap_open(&tap);
	tap_attach(&tap, "", 0);
	dump_one(&tap, &payload);
	for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
		assert_restored(&tap, &payload, "0", hints[i]);
	kw_buffer_close(&payload);
	tap_detach(&tap);
	tap_close(&tap);
}

static void a_broken_connection_goes_on_without_a_gap(void **state)
{
	char id[KW_REPL_ID_LENGTH + 1];
	struct tap tap;

	tap_open(&tap);
	tap_attach(&tap, "", 0);
	peer_words(&peer, NULL, "SET", "a", "1", NULL);
	told_until_now(&tap);
	tap_detach(&tap);
	peer_words(&peer, NULL, "SET", "a", "2", NULL);
	peer_words(&peer, NULL, "DEL", "a", NULL);
	kw_buffer_clear(&tap.told);
	snprintf(id, sizeof id, "%s", tap.attach.id);
	tap_attach(&tap, id, kw_repl_parser_offset(tap.parser));
	assert_false(tap.attach.full);
	assert_string_equal(told_until_now(&tap), "VALUE a=2;/DELETE a;/");
	tap_detach(&tap);
	tap_close(&tap);
}

static void a_joiner_begins_at_the_offset_of_info(void **state)
{
	char id[KW_REPL_ID_LENGTH + 1];
	struct tap first, second;
	uint64_t offset;

	tap_open(&first);
	tap_attach(&first, "", 0); /* from then on there is a backlog */
	peer_words(&peer, NULL, "SET", "a", "1", NULL);
	told_until_now(&first);
	offset = offset_of_server(id);
	peer_words(&peer, NULL, "SET", "a", "2", NULL);
	tap_open(&second);
	tap_attach(&second, id, offset);
	assert_false(second.attach.full);
	assert_string_equal(told_until_now(&second), "*:TOUCH a;/"); /* no SELECT came */
	tap_detach(&second);
	tap_close(&second);
	tap_detach(&first);
	tap_close(&first);
}

static void beyond_the_backlog_it_begins_anew(void **state)
{
	struct kw_buffer large = {0};
	struct tap tap;

	tap_open(&tap);
	tap_attach(&tap, "", 0);
	tap_detach(&tap);
	memset(kw_buffer_reserve(&large, 2 << 20), 'x', 2 << 20);
	peer_command(&peer, NULL, 3,
		(struct kw_slice[]){kw_slice_text("SET"), kw_slice_text("large"),
			kw_slice(large.data, 2 << 20)});
	tap_attach(&tap, tap.attach.id, tap.attach.offset);
	assert_true(tap.attach.full);
	assert_true(kw_buffer_length(&tap.attach.payload) < 1024); /* without the keys */
	peer_words(&peer, NULL, "DEL", "large", NULL);
	assert_string_equal(told_until_now(&tap), "DELETE large;/");
	kw_buffer_close(&large);
	tap_detach(&tap);
	tap_close(&tap);
}

/* ---- strings ---- */

static uint64_t dice = 88172645463325252;

static uint64_t roll(uint64_t bound)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice % bound;
}

/* Integers around every limit, short and long texts, of few letters and of all bytes. */
static struct kw_slice random_value(uint8_t *at)
{
	static const int64_t limits[] = {0, INT8_MIN, INT8_MAX, INT16_MIN, INT16_MAX, INT32_MIN,
		INT32_MAX, INT64_MIN + 9, INT64_MAX - 9, 9999999999, -9999999999};
	static const size_t lengths[] = {2, 12, 21, 64, 200, 16384, VALUE_BYTES};
	size_t length;
	uint64_t letters = roll(3) == 0 ? 256 : 1 + roll(20);

	if (roll(3) == 0)
		return kw_slice(at, (size_t)sprintf((char *)at, "%s%lld", roll(20) ? "" : "0",
					    (long long)limits[roll(11)] + (int64_t)roll(9) - 4));
	length = roll(lengths[roll(sizeof lengths / sizeof *lengths)] + 1);
	for (size_t i = 0; i < length; i++)
		at[i] = (uint8_t)(letters == 256 ? roll(256) : '0' + roll(letters));
	return kw_slice(at, length);
}

/* What the server has for it; the RDB version is the server's. */
static void dump(struct kw_slice value, struct kw_buffer *payload)
{
	peer_command(&peer, NULL, 3,
		(struct kw_slice[]){kw_slice_text("SET"), kw_slice_text("s"), value});
	kw_buffer_clear(payload);
	assert_int_equal(peer_words(&peer, payload, "DUMP", "s", NULL), '$');
}

/* As tests/integration/lib/process.py: a long run by command, a sample in tests/run. */
static unsigned long count_of_values(void)
{
	const char *length = getenv("KW_LENGTH");
	double times = length ? strtod(length, NULL) : 1;

	assert_true(times > 0 && times <= 1e6);
	return (unsigned long)(VALUES * times);
}

static unsigned long compare_values(unsigned long count, bool compress)
{
	static uint8_t bytes[VALUE_BYTES + 64];
	struct kw_buffer theirs = {0}, ours = {0};
	unsigned long equal = 0;

	peer_words(&peer, NULL, "CONFIG", "SET", "rdbcompression", compress ? "yes" : "no", NULL);
	for (unsigned long i = 0; i < count; i++) {
		struct kw_hash128 a, b;
		struct kw_error error;
		struct kw_slice value = random_value(bytes), payload;
		uint16_t version;

		dump(value, &theirs);
		payload = kw_slice(kw_buffer_bytes(&theirs), kw_buffer_length(&theirs));
		assert_int_equal(kw_payload_check(payload, &version, &error), KW_OK);
		kw_buffer_clear(&ours);
		kw_payload_of_string(value, version, compress, &ours);
		equal += kw_slice_equal(
			payload, kw_slice(kw_buffer_bytes(&ours), kw_buffer_length(&ours)));
		assert_int_equal(kw_payload_digest(payload, &a, &error), KW_OK);
		payload = kw_slice(kw_buffer_bytes(&ours), kw_buffer_length(&ours));
		assert_int_equal(kw_payload_check(payload, &version, &error), KW_OK);
		assert_int_equal(kw_payload_digest(payload, &b, &error), KW_OK);
		assert_true(a.low == b.low && a.high == b.high);
	}
	kw_buffer_close(&theirs);
	kw_buffer_close(&ours);
	return equal;
}

static void a_string_is_encoded_as_the_server_does(void **state)
{
	unsigned long count = count_of_values();
	unsigned long equal = compare_values(count, false);

	assert_int_equal(equal, count);
	equal = compare_values(count, true);
	print_message("%s: %lu of %lu payloads are equal byte by byte with compression\n", binary,
		equal, count);
	assert_true(equal > count / 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_servers_own_list_of_commands_is_understood),
		cmocka_unit_test(each_command_arrives_as_its_meaning),
		cmocka_unit_test(a_restored_payload_and_a_transaction_arrive_whole),
		cmocka_unit_test(a_restored_payload_comes_with_the_hints_of_its_key),
		cmocka_unit_test(a_broken_connection_goes_on_without_a_gap),
		cmocka_unit_test(a_joiner_begins_at_the_offset_of_info),
		cmocka_unit_test(beyond_the_backlog_it_begins_anew),
		cmocka_unit_test(a_string_is_encoded_as_the_server_does),
	};

	if (argc > 1)
		binary = argv[1];
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
