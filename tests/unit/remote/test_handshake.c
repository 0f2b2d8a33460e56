#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remote/exchange.h"
#include "remote/handshake.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct kw_handshake_facts facts = {
	.epoch = 77,
	.depth = 3,
	.extent = {.length = 1 << 20, .address = 5, .rkey = 6},
	.memory_device = 8,
	.memory_inode = 9,
	.session = 10,
};

/* What went over the wire, message by message: HELLO, CHALLENGE, PROOF, WELCOME or a REFUSE. */
struct wire {
	uint8_t bytes[8][KW_HANDSHAKE_MESSAGE_MAX];
	size_t length[8];
	int count;
};

struct pair {
	struct kw_handshake agent, proxy;
	struct wire wire;
	int flip_message; /* -1: none; else flip the bit of that message on its way */
	size_t flip_bit;
};

static struct kw_endpoint endpoint(const char *text)
{
	struct kw_endpoint parsed;

	assert_true(kw_endpoint_parse(text, &parsed));
	return parsed;
}

static struct kw_channel tcp_channel(const char *text)
{
	const struct kw_endpoint proxy = endpoint(text);

	return kw_channel_tcp(&proxy);
}

/* What a test says of its two ends; zeros: both alike, over tcp, with the unnamed key. */
struct ends {
	const char *agent_secret, *proxy_secret; /* NULL: none */
	const char *key_id;
	enum kw_role role;
	const struct kw_channel *dialled, *arrived;
	const struct kw_endpoints *addresses;
	struct kw_keyring **keyring; /* the proxy's, in place of its secret */
	uint16_t agent_layout;
	uint8_t salt;
	bool compress; /* the agent wishes it */
	bool sleeps;   /* … */
};

/* A ring of one secret without an id; one for each secret, to the end of the tests. */
static struct kw_keyring **ring_of(const char *secret)
{
	static const char *secrets[16];
	static struct kw_keyring *rings[16];
	int i = 0;

	if (!secret)
		secret = "";
	while (i < 16 && secrets[i] && strcmp(secrets[i], secret) != 0)
		i++;
	assert_true(i < 16);
	if (!secrets[i])
		rings[i] = kw_keyring_new(kw_slice_text(secret), (struct kw_slice){0}, NULL);
	secrets[i] = secret;
	return &rings[i];
}

static struct kw_slice secret_of(const char *text)
{
	return text ? kw_slice_text(text) : (struct kw_slice){0};
}

static void begin_ends(struct pair *pair, const struct ends *ends)
{
	const struct kw_channel channel = tcp_channel("10.0.0.9:7000");
	uint8_t agent_nonce[KW_NONCE_BYTES], proxy_nonce[KW_NONCE_BYTES];
	const struct kw_handshake_options agent = {
		.secret = secret_of(ends->agent_secret),
		.name = "agent one",
		.key_id = ends->key_id,
		.role = ends->role ? ends->role : KW_ROLE_AGENT,
		.layout_version = ends->agent_layout ? ends->agent_layout : KW_LAYOUT_VERSION,
		.channel = ends->dialled ? ends->dialled : &channel,
		.depth = 16,
		.compress = ends->compress,
		.sleeps = ends->sleeps,
		.nonce = agent_nonce,
	};
	const struct kw_handshake_options proxy = {
		.layout_version = KW_LAYOUT_VERSION,
		.addresses = ends->addresses,
		.keyring = ends->keyring ? ends->keyring : ring_of(ends->proxy_secret),
		.nonce = proxy_nonce,
	};

	memset(agent_nonce, 0xA0 + ends->salt, sizeof agent_nonce);
	memset(proxy_nonce, 0x50 + ends->salt, sizeof proxy_nonce);
	*pair = (struct pair){.flip_message = -1};
	kw_handshake_init_agent(&pair->agent, &agent);
	kw_handshake_init_proxy(&pair->proxy, &proxy);
	kw_handshake_set_channel(&pair->proxy, ends->arrived ? ends->arrived : &channel);
}

static void begin(struct pair *pair, const char *agent_secret, const char *proxy_secret)
{
	begin_ends(
		pair, &(struct ends){.agent_secret = agent_secret, .proxy_secret = proxy_secret});
}

/* Another time: other nonces. */
static void begin_again(struct pair *pair)
{
	begin_ends(pair, &(struct ends){.agent_secret = "s", .proxy_secret = "s", .salt = 1});
}

/* Move one message from one end to the other; false: there was none. */
static bool carry(struct pair *pair, struct kw_handshake *from, struct kw_handshake *to)
{
	struct kw_slice output = kw_handshake_output(from);
	struct wire *wire = &pair->wire;
	uint8_t *bytes = wire->bytes[wire->count];

	if (output.length == 0)
		return false;
	assert_true(wire->count < 8);
	memcpy(bytes, output.data, output.length);
	wire->length[wire->count] = output.length;
	if (wire->count == pair->flip_message)
		bytes[pair->flip_bit / 8] ^= (uint8_t)(1 << pair->flip_bit % 8);
	wire->count++;
	kw_handshake_sent(from, output.length);
	(void)kw_handshake_input(to, bytes, output.length);
	return true;
}

static void run(struct pair *pair)
{
	bool moved = true;

	while (moved) {
		moved = carry(pair, &pair->agent, &pair->proxy);
		if (kw_handshake_is(&pair->proxy, KW_HANDSHAKE_PROVED))
			kw_handshake_welcome(&pair->proxy, &facts);
		moved |= carry(pair, &pair->proxy, &pair->agent);
	}
}

static bool both_done(const struct pair *pair)
{
	return kw_handshake_is(&pair->agent, KW_HANDSHAKE_DONE) &&
	       kw_handshake_is(&pair->proxy, KW_HANDSHAKE_DONE);
}

static void equal_secrets_meet(void **state)
{
	struct pair pair;

	begin(&pair, "s3cret", "s3cret");
	run(&pair);
	assert_true(both_done(&pair));
	assert_int_equal(pair.wire.count, 4);
	assert_string_equal(pair.proxy.name, "agent one");
	assert_int_equal(pair.proxy.depth, 16);
	assert_int_equal(pair.agent.facts.epoch, 77);
	assert_int_equal(pair.agent.facts.depth, 3);
	assert_memory_equal(&pair.agent.facts.extent, &facts.extent, sizeof facts.extent);
	assert_false(pair.agent.facts.scoped);
	assert_int_equal(pair.agent.facts.memory_device, 8);
	assert_int_equal(pair.agent.facts.memory_inode, 9);
	assert_int_equal(pair.agent.facts.session, 10);
}

/* A later version might: the agent goes on with what it can do. */
static void a_grant_above_the_wish_is_lowered(void **state)
{
	struct kw_handshake_facts generous = facts;
	struct pair pair;

	generous.depth = 17;
	begin(&pair, "s", "s");
	carry(&pair, &pair.agent, &pair.proxy);
	carry(&pair, &pair.proxy, &pair.agent);
	carry(&pair, &pair.agent, &pair.proxy);
	kw_handshake_welcome(&pair.proxy, &generous);
	carry(&pair, &pair.proxy, &pair.agent);
	assert_true(both_done(&pair));
	assert_int_equal(pair.agent.facts.depth, 16);
}

static void a_scoped_key_is_told_with_the_welcome(void **state)
{
	struct kw_handshake_facts scoped = facts;
	struct pair pair;

	scoped.scoped = true;
	begin(&pair, "s", "s");
	carry(&pair, &pair.agent, &pair.proxy);
	carry(&pair, &pair.proxy, &pair.agent);
	carry(&pair, &pair.agent, &pair.proxy);
	kw_handshake_welcome(&pair.proxy, &scoped);
	carry(&pair, &pair.proxy, &pair.agent);
	assert_true(both_done(&pair));
	assert_true(pair.agent.facts.scoped);
}

/* What the proxy hears of the agent's wish, and the agent of its answer. */
static void answer_wish(struct pair *pair, bool wish, enum kw_compression answer)
{
	struct kw_handshake_facts told = facts;

	told.compression = answer;
	begin_ends(
		pair, &(struct ends){.agent_secret = "s", .proxy_secret = "s", .compress = wish});
	carry(pair, &pair->agent, &pair->proxy);
	assert_int_equal(pair->proxy.compress, wish);
	assert_int_equal(pair->proxy.depth, 16);
	carry(pair, &pair->proxy, &pair->agent);
	carry(pair, &pair->agent, &pair->proxy);
	pair->proxy.compress = true; /* a proxy that answers what was not asked */
	kw_handshake_welcome(&pair->proxy, &told);
	carry(pair, &pair->proxy, &pair->agent);
}

static void a_wish_for_compression_is_answered(void **state)
{
	struct pair pair;

	for (enum kw_compression answer = KW_COMPRESSION_UNTOLD; answer <= KW_COMPRESSION_UNBUILT;
		answer++) {
		answer_wish(&pair, true, answer);
		assert_true(both_done(&pair));
		assert_int_equal(pair.agent.facts.compression, answer);
		assert_int_equal(pair.agent.facts.depth, 3);
		assert_int_equal(
			kw_compression_text(answer)[0] == '\0', answer == KW_COMPRESSION_ZSTD);
	}
	/* A later proxy can have a reason that we do not know. */
	answer_wish(&pair, true, (enum kw_compression)200);
	assert_true(both_done(&pair));
	assert_non_null(strstr(kw_compression_text(pair.agent.facts.compression), "not know"));
	answer_wish(&pair, false, KW_COMPRESSION_UNTOLD);
	assert_true(both_done(&pair));
	answer_wish(&pair, false, KW_COMPRESSION_ZSTD);
	assert_int_equal(pair.agent.error.code, KW_E_PROTOCOL);
}

static void wish_to_sleep(struct pair *pair, bool wish, bool answer)
{
	struct kw_handshake_facts told = facts;

	told.wakes = answer;
	begin_ends(pair, &(struct ends){.agent_secret = "s", .proxy_secret = "s", .sleeps = wish});
	carry(pair, &pair->agent, &pair->proxy);
	assert_int_equal(pair->proxy.sleeps, wish);
	assert_int_equal(pair->proxy.depth, 16);
	carry(pair, &pair->proxy, &pair->agent);
	carry(pair, &pair->agent, &pair->proxy);
	pair->proxy.sleeps = true; /* a proxy that answers what was not asked */
	kw_handshake_welcome(&pair->proxy, &told);
	carry(pair, &pair->proxy, &pair->agent);
}

static void a_wish_to_sleep_is_answered(void **state)
{
	struct pair pair;

	for (int answer = 0; answer < 2; answer++) {
		wish_to_sleep(&pair, true, answer);
		assert_true(both_done(&pair));
		assert_int_equal(pair.agent.facts.wakes, answer);
	}
	wish_to_sleep(&pair, false, false);
	assert_true(both_done(&pair));
	wish_to_sleep(&pair, false, true);
	assert_int_equal(pair.agent.error.code, KW_E_PROTOCOL);
}

/*
 * An earlier proxy must take the wish for a depth beyond its limit, and nothing else: the bit is
 * the only one that differs.
 */
static void check_bit(const struct ends *wish, uint32_t bit)
{
	struct kw_hello with, without;
	struct pair pair;

	begin_ends(&pair, wish);
	memcpy(&with, kw_handshake_output(&pair.agent).data, sizeof with);
	begin_ends(&pair, &(struct ends){0});
	memcpy(&without, kw_handshake_output(&pair.agent).data, sizeof without);
	assert_int_equal(with.depth, without.depth | bit);
	with.depth = without.depth;
	assert_memory_equal(&with, &without, sizeof with);
}

static void a_wish_changes_the_depth_alone(void **state)
{
	check_bit(&(struct ends){.compress = true}, UINT32_C(0x80000000));
	check_bit(&(struct ends){.sleeps = true}, UINT32_C(0x40000000));
}

static void the_proxy_knows_as_whom_and_for_what(void **state)
{
	for (enum kw_role role = KW_ROLE_AGENT; role <= KW_ROLE_INSPECTOR; role++) {
		struct pair pair;

		begin_ends(&pair,
			&(struct ends){.agent_secret = "s", .proxy_secret = "s", .role = role});
		run(&pair);
		assert_true(both_done(&pair));
		assert_int_equal(pair.proxy.identity.role, role);
		assert_int_equal(pair.proxy.identity.proved, KW_PROVED_KEY);
		assert_string_equal(pair.proxy.identity.key_id, "");
		begin_ends(&pair, &(struct ends){.role = role});
		run(&pair);
		assert_true(both_done(&pair));
		assert_int_equal(pair.proxy.identity.role, role);
		assert_int_equal(pair.proxy.identity.proved, KW_PROVED_NOTHING);
	}
}

static void no_secret_on_either_side_meets_too(void **state)
{
	struct pair pair;

	begin(&pair, NULL, NULL);
	run(&pair);
	assert_true(both_done(&pair));
}

static void expect_refused(const char *agent_secret, const char *proxy_secret, const char *text)
{
	struct pair pair;

	begin(&pair, agent_secret, proxy_secret);
	run(&pair);
	assert_true(kw_handshake_is(&pair.agent, KW_HANDSHAKE_FAILED));
	assert_false(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_DONE));
	assert_int_equal(pair.agent.error.code, KW_E_REFUSED);
	if (!strstr(pair.agent.error.text, text))
		fail_msg("\"%s\" lacks \"%s\"", pair.agent.error.text, text);
}

static void secrets_that_differ_are_refused_by_a_sentence(void **state)
{
	expect_refused("a", "b", "unknown secret");
	expect_refused(NULL, "b", "a secret is required");
	expect_refused("a", NULL, "no secret to prove");
}

static void every_refusal_is_a_sentence_of_its_own(void **state)
{
	char seen[16][KW_ERROR_TEXT];

	for (int reason = KW_REFUSE_VERSION; reason <= KW_REFUSE_RULES + 1; reason++) {
		struct pair pair;

		begin(&pair, NULL, NULL);
		(void)kw_handshake_refuse(&pair.proxy, (enum kw_refusal)reason, 9);
		if (reason <= KW_REFUSE_RULES)
			assert_true(strncmp(pair.proxy.error.text, "refused", 7) == 0);
		assert_true(carry(&pair, &pair.proxy, &pair.agent));
		assert_true(kw_handshake_is(&pair.agent, KW_HANDSHAKE_FAILED));
		assert_int_equal(pair.agent.error.code, KW_E_REFUSED);
		strcpy(seen[reason - 1], pair.agent.error.text);
		for (int i = 0; i < reason - 1; i++)
			assert_string_not_equal(seen[i], seen[reason - 1]);
	}
}

static void a_proxy_that_does_not_know_the_secret_is_found_out(void **state)
{
	struct kw_welcome welcome = {
		.header = {KW_HANDSHAKE_MAGIC, KW_WELCOME, sizeof welcome},
		.depth = 1,
		.extent = {.length = 4096},
	};
	struct pair pair;

	begin(&pair, "s", "s");
	assert_true(carry(&pair, &pair.agent, &pair.proxy));
	assert_true(carry(&pair, &pair.proxy, &pair.agent));
	assert_int_equal(kw_handshake_input(&pair.agent, &welcome, sizeof welcome), KW_E_REFUSED);
	assert_non_null(strstr(pair.agent.error.text, "could not prove"));
}

static void every_flipped_bit_is_noticed_where_there_is_a_secret(void **state)
{
	struct pair clean;

	begin(&clean, "s", "s");
	run(&clean);
	for (int message = 0; message < 4; message++)
		for (size_t bit = 0; bit < clean.wire.length[message] * 8; bit++) {
			struct pair pair;

			begin(&pair, "s", "s");
			pair.flip_message = message;
			pair.flip_bit = bit;
			run(&pair);
			if (both_done(&pair))
				fail_msg("bit %zu of message %d went unnoticed", bit, message);
			/* Only the last message may leave one side believing. */
			if (message < 3)
				assert_false(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_DONE));
			assert_false(kw_handshake_is(&pair.agent, KW_HANDSHAKE_DONE));
		}
}

static void any_cut_between_bytes_gives_the_same(void **state)
{
	struct pair whole;

	begin(&whole, "s", "s");
	run(&whole);
	for (size_t step = 1; step < 20; step++) {
		struct pair pair;

		begin(&pair, "s", "s");
		for (size_t at = 0; at < whole.wire.length[0]; at += step) {
			size_t left = whole.wire.length[0] - at;

			assert_int_equal(kw_handshake_wants(&pair.proxy) > 0, true);
			assert_int_equal(kw_handshake_input(&pair.proxy, whole.wire.bytes[0] + at,
						 left < step ? left : step),
				0);
		}
		assert_true(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_PROOF_WAIT));
	}
}

static void a_message_cut_short_is_waited_for_and_never_believed(void **state)
{
	struct pair whole;

	begin(&whole, "s", "s");
	run(&whole);
	for (size_t length = 0; length < whole.wire.length[0]; length++) {
		struct pair pair;

		begin(&pair, "s", "s");
		assert_int_equal(kw_handshake_input(&pair.proxy, whole.wire.bytes[0], length), 0);
		assert_true(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_HELLO_WAIT));
		assert_int_equal(kw_handshake_output(&pair.proxy).length, 0);
	}
}

static void a_length_that_lies_is_refused(void **state)
{
	static const uint16_t lengths[] = {0, 7, 8, 9, 112, 191, 193, 255, 257, 65535};

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		uint8_t bytes[KW_HANDSHAKE_MESSAGE_MAX] = {0};
		struct pair pair;

		begin(&pair, "s", "s");
		memcpy(bytes, kw_handshake_output(&pair.agent).data, sizeof(struct kw_hello));
		memcpy(bytes + offsetof(struct kw_handshake_header, length), &lengths[i], 2);
		(void)kw_handshake_input(&pair.proxy, bytes, sizeof bytes);
		assert_true(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_FAILED));
		assert_int_equal(pair.proxy.error.code, KW_E_PROTOCOL);
		/* It says so. */
		assert_int_equal(kw_handshake_output(&pair.proxy).length, sizeof(struct kw_refuse));
	}
}

static void a_recorded_agent_cannot_be_replayed(void **state)
{
	struct pair old, now;

	begin(&old, "s", "s");
	run(&old);
	begin_again(&now);
	assert_int_equal(kw_handshake_input(&now.proxy, old.wire.bytes[0], old.wire.length[0]), 0);
	assert_int_equal(kw_handshake_input(&now.proxy, old.wire.bytes[2], old.wire.length[2]),
		KW_E_REFUSED);
	assert_non_null(strstr(now.proxy.error.text, "unknown secret"));
}

static void a_recorded_proxy_cannot_be_replayed(void **state)
{
	struct pair old, now;

	begin(&old, "s", "s");
	run(&old);
	begin_again(&now);
	assert_int_equal(kw_handshake_input(&now.agent, old.wire.bytes[1], old.wire.length[1]), 0);
	assert_int_equal(kw_handshake_input(&now.agent, old.wire.bytes[3], old.wire.length[3]),
		KW_E_REFUSED);
}

static void a_proof_sent_back_proves_nothing(void **state)
{
	struct kw_welcome welcome = {
		.header = {KW_HANDSHAKE_MAGIC, KW_WELCOME, sizeof welcome},
		.depth = 1,
		.extent = {.length = 4096},
	};
	struct kw_proof proof;
	struct pair pair;
	struct kw_slice output;

	/* One who knows nothing echoes the agent's own proof as the proxy's. */
	begin(&pair, "s", "s");
	assert_true(carry(&pair, &pair.agent, &pair.proxy));
	assert_true(carry(&pair, &pair.proxy, &pair.agent));
	output = kw_handshake_output(&pair.agent);
	assert_int_equal(output.length, sizeof proof);
	memcpy(&proof, output.data, sizeof proof);
	memcpy(welcome.proof, proof.proof, sizeof welcome.proof);
	assert_int_equal(kw_handshake_input(&pair.agent, &welcome, sizeof welcome), KW_E_REFUSED);
	/* And its messages are not taken for the proxy's. */
	begin(&pair, "s", "s");
	output = kw_handshake_output(&pair.agent);
	assert_int_equal(
		kw_handshake_input(&pair.agent, output.data, output.length), KW_E_PROTOCOL);
}

static void names_are_one_to_sixty_four_printable_characters(void **state)
{
	char name[KW_AGENT_NAME_MAX + 2];

	assert_false(kw_agent_name_valid(""));
	assert_false(kw_agent_name_valid("a\nb"));
	assert_false(kw_agent_name_valid("\xc3\xa4"));
	assert_true(kw_agent_name_valid("a b-c.d"));
	memset(name, 'x', sizeof name);
	name[KW_AGENT_NAME_MAX + 1] = 0;
	assert_false(kw_agent_name_valid(name));
	name[KW_AGENT_NAME_MAX] = 0;
	assert_true(kw_agent_name_valid(name));
}

static void an_invalid_name_is_refused_at_the_door(void **state)
{
	struct kw_hello hello;
	struct pair pair;

	for (int i = 0; i < 3; i++) {
		begin(&pair, NULL, NULL);
		memcpy(&hello, kw_handshake_output(&pair.agent).data, sizeof hello);
		if (i == 0)
			hello.name_length = 0;
		if (i == 1)
			hello.name[2] = '\n';
		if (i == 2)
			hello.name[60] = 'x'; /* behind the name */
		assert_int_equal(
			kw_handshake_input(&pair.proxy, &hello, sizeof hello), KW_E_REFUSED);
		assert_true(carry(&pair, &pair.proxy, &pair.agent));
		assert_non_null(strstr(pair.agent.error.text, "printable"));
	}
}

static void expect_text(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" lacks \"%s\"", text, part);
}

/* The higher number is the later version: the sentences of both ends name the older one. */
static void of_two_layouts_the_older_one_is_to_be_upgraded(void **state)
{
	struct pair pair;

	begin_ends(&pair, &(struct ends){.agent_layout = KW_LAYOUT_VERSION + 1});
	run(&pair);
	expect_text(pair.proxy.error.text, "upgrade this proxy");
	expect_text(pair.agent.error.text, "upgrade the proxy");
	begin_ends(&pair, &(struct ends){.agent_layout = KW_LAYOUT_VERSION - 1});
	run(&pair);
	expect_text(pair.proxy.error.text, "upgrade that agent");
	expect_text(pair.agent.error.text, "upgrade this agent");
}

static void of_two_handshakes_the_older_one_is_to_be_upgraded(void **state)
{
	struct kw_refuse refuse = {
		.header = {KW_HANDSHAKE_MAGIC, KW_REFUSE, sizeof refuse},
		.reason = KW_REFUSE_VERSION,
		.version = KW_WIRE_VERSION + 1,
	};
	struct kw_hello hello;
	struct pair pair;

	begin(&pair, NULL, NULL);
	memcpy(&hello, kw_handshake_output(&pair.agent).data, sizeof hello);
	hello.version = KW_WIRE_VERSION + 1;
	assert_int_equal(kw_handshake_input(&pair.proxy, &hello, sizeof hello), KW_E_REFUSED);
	expect_text(pair.proxy.error.text, "version 4, this proxy's 3: upgrade this proxy");
	assert_int_equal(kw_handshake_input(&pair.agent, &refuse, sizeof refuse), KW_E_REFUSED);
	expect_text(pair.agent.error.text, "version 4, this agent's 3: upgrade this agent");
	begin(&pair, NULL, NULL);
	hello.version = 1;
	refuse.version = 1;
	assert_int_equal(kw_handshake_input(&pair.proxy, &hello, sizeof hello), KW_E_REFUSED);
	expect_text(pair.proxy.error.text, "upgrade that agent");
	assert_int_equal(kw_handshake_input(&pair.agent, &refuse, sizeof refuse), KW_E_REFUSED);
	expect_text(pair.agent.error.text, "upgrade the proxy");
}

static void another_layout_of_the_table_is_refused_with_both_named(void **state)
{
	char ours[32];
	struct pair pair;

	snprintf(ours, sizeof ours, "layout version %d,", KW_LAYOUT_VERSION);
	begin_ends(&pair, &(struct ends){.agent_layout = KW_LAYOUT_VERSION + 41});
	run(&pair);
	assert_int_equal(pair.proxy.error.code, KW_E_REFUSED);
	expect_text(pair.proxy.error.text, "refused agent agent one");
	expect_text(pair.proxy.error.text, "layout version 43");
	assert_int_equal(pair.agent.error.code, KW_E_REFUSED);
	expect_text(pair.agent.error.text, ours);
	expect_text(pair.agent.error.text, "reads 43");
}

/* ---- the channel ---- */

#define CHANNELS 10

static void make_channels(struct kw_channel channels[CHANNELS])
{
	const struct kw_endpoint proxy = endpoint("10.0.0.9:7000"),
				 other = endpoint("10.0.0.8:7000");

	channels[0] = kw_channel_shm(5, 6);
	channels[1] = kw_channel_shm(5, 7);
	channels[2] = kw_channel_shm(6, 6);
	channels[3] = tcp_channel("10.0.0.9:7000");
	channels[4] = tcp_channel("10.0.0.9:7001");
	channels[5] = tcp_channel("[fd00::9]:7000");
	channels[6] = kw_channel_rdma(&proxy, 11, 12);
	channels[7] = kw_channel_rdma(&proxy, 11, 13);
	channels[8] = kw_channel_rdma(&proxy, 10, 12);
	channels[9] = kw_channel_rdma(&other, 11, 12);
}

/* Both hold the secret, and a relay carries their messages as they are. */
static void a_handshake_is_worth_nothing_on_another_connection(void **state)
{
	struct kw_channel channels[CHANNELS];
	struct pair pair;

	make_channels(channels);
	for (int i = 0; i < CHANNELS; i++)
		for (int j = 0; j < CHANNELS; j++) {
			const struct ends ends = {.agent_secret = "s",
				.proxy_secret = "s",
				.dialled = &channels[i],
				.arrived = &channels[j]};

			begin_ends(&pair, &ends);
			run(&pair);
			assert_int_equal(both_done(&pair), i == j);
			if (i == j)
				continue;
			assert_false(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_DONE));
			assert_int_equal(pair.agent.error.code, KW_E_REFUSED);
			expect_text(pair.agent.error.text, "relay");
			expect_text(pair.proxy.error.text, "refused agent agent one: ");
			expect_text(pair.proxy.error.text, "relay");
			/* Before anything was proved. */
			assert_int_equal(pair.wire.count, 2);
		}
}

/* The relay makes HELLO fit its own connection. Then what was proved is not what was said. */
static void a_relay_that_rewrites_hello_is_refused(void **state)
{
	struct kw_channel channels[CHANNELS];
	struct kw_hello hello;
	struct pair pair;

	make_channels(channels);
	for (int i = 0; i < CHANNELS; i++)
		for (int j = 0; j < CHANNELS; j++) {
			const struct ends ends = {.agent_secret = "s",
				.proxy_secret = "s",
				.dialled = &channels[i],
				.arrived = &channels[j]};

			if (i == j)
				continue;
			begin_ends(&pair, &ends);
			memcpy(&hello, kw_handshake_output(&pair.agent).data, sizeof hello);
			kw_handshake_sent(&pair.agent, sizeof hello);
			hello.carrier = (uint8_t)channels[j].kind;
			memcpy(hello.channel, channels[j].bytes, sizeof hello.channel);
			assert_int_equal(kw_handshake_input(&pair.proxy, &hello, sizeof hello), 0);
			run(&pair);
			assert_true(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_FAILED));
			assert_true(kw_handshake_is(&pair.agent, KW_HANDSHAKE_FAILED));
			expect_text(pair.proxy.error.text, "unknown secret");
		}
}

/* An address that nothing proves is not worth a refusal behind a NAT. */
static void without_a_secret_the_carrier_and_the_socket_file_are_compared(void **state)
{
	struct kw_channel channels[CHANNELS];
	struct pair pair;

	make_channels(channels);
	for (int i = 0; i < CHANNELS; i++)
		for (int j = 0; j < CHANNELS; j++) {
			const struct ends ends = {.dialled = &channels[i], .arrived = &channels[j]};
			bool file = channels[j].kind == KW_CHANNEL_SHM;

			begin_ends(&pair, &ends);
			run(&pair);
			assert_int_equal(both_done(&pair),
				file ? i == j : channels[i].kind == channels[j].kind);
		}
}

static void an_address_of_a_tunnel_is_the_proxys_too(void **state)
{
	const struct kw_channel dialled = tcp_channel("127.0.0.1:7471"),
				arrived = tcp_channel("172.17.0.2:7000");
	const struct kw_endpoints addresses = {
		.count = 2, .items = {endpoint("10.0.0.9:7000"), endpoint("127.0.0.1:7471")}};
	struct ends ends = {.agent_secret = "s",
		.proxy_secret = "s",
		.dialled = &dialled,
		.arrived = &arrived,
		.addresses = &addresses};
	struct pair pair;

	begin_ends(&pair, &ends);
	run(&pair);
	assert_true(both_done(&pair));
	ends.addresses = NULL;
	begin_ends(&pair, &ends);
	run(&pair);
	expect_text(pair.proxy.error.text, "tcp 127.0.0.1:7471");
	expect_text(pair.proxy.error.text, "tcp 172.17.0.2:7000");
	expect_text(pair.proxy.error.text, "auth.addresses");
	expect_text(pair.agent.error.text, "tcp 127.0.0.1:7471");
	expect_text(pair.agent.error.text, "auth.addresses");
}

/* ---- keys ---- */

/* Nobody learns from an answer which ids there are. */
static void an_unknown_key_id_is_answered_like_a_wrong_secret(void **state)
{
	struct pair unknown, wrong;

	begin_ends(&unknown,
		&(struct ends){.agent_secret = "s", .proxy_secret = "s", .key_id = "edge-1"});
	run(&unknown);
	begin(&wrong, "t", "s");
	run(&wrong);
	assert_int_equal(unknown.wire.count, wrong.wire.count);
	for (int i = 0; i < wrong.wire.count; i++)
		assert_int_equal(unknown.wire.length[i], wrong.wire.length[i]);
	/* CHALLENGE and REFUSE. */
	assert_memory_equal(unknown.wire.bytes[1], wrong.wire.bytes[1], wrong.wire.length[1]);
	assert_memory_equal(unknown.wire.bytes[3], wrong.wire.bytes[3], wrong.wire.length[3]);
	assert_int_equal(unknown.proxy.error.code, KW_E_REFUSED);
	expect_text(unknown.proxy.error.text, "unknown secret for key edge-1");
	expect_text(unknown.agent.error.text, "unknown secret");
	expect_text(unknown.agent.error.text, "key edge-1");
}

#define OLD_HEX "000102030405060708090a0b0c0d0e0f"
#define NEW_HEX "101112131415161718191a1b1c1d1e1f"
#define OTHER_HEX "202122232425262728292a2b2c2d2e2f"
static const char old_secret[] = "\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17";
static const char new_secret[] = "\20\21\22\23\24\25\26\27\30\31\32\33\34\35\36\37";

/* While a secret is replaced, an id has two, and each side proves the one that the agent has. */
static void either_secret_of_an_id_is_proved_by_both(void **state)
{
	static const char text[] = "key edge-1 " OLD_HEX "\n"
				   "key edge-1 " NEW_HEX "\n"
				   "key cache " OTHER_HEX " prefix=c:\n";
	struct kw_keyring *ring =
		kw_keyring_new(kw_slice_text("unnamed secret"), kw_slice_text(text), NULL);
	const char *const secrets[] = {old_secret, new_secret};
	const struct kw_key *key;
	struct pair pair;

	assert_non_null(ring);
	for (int i = 0; i < 2; i++) {
		begin_ends(&pair, &(struct ends){.keyring = &ring, .key_id = "edge-1", .salt = 2});
		pair.agent.secret = kw_slice(secrets[i], 16);
		pair.agent.hello.flags = KW_WIRE_PROVES;
		pair.agent.output[offsetof(struct kw_hello, flags)] = KW_WIRE_PROVES;
		run(&pair);
		assert_true(both_done(&pair));
		assert_string_equal(pair.proxy.identity.key_id, "edge-1");
		key = kw_keyring_proved(ring, "edge-1", pair.proxy.identity.key_digest);
		assert_memory_equal(key->secret.data, secrets[i], 16);
		/* The same secret under another id, and under none. */
		begin_ends(&pair, &(struct ends){.keyring = &ring, .key_id = i ? NULL : "cache"});
		pair.agent.secret = kw_slice(secrets[i], 16);
		pair.agent.hello.flags = KW_WIRE_PROVES;
		pair.agent.output[offsetof(struct kw_hello, flags)] = KW_WIRE_PROVES;
		run(&pair);
		assert_true(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_FAILED));
		expect_text(pair.proxy.error.text, "unknown secret");
	}
	begin_ends(&pair, &(struct ends){.keyring = &ring, .agent_secret = "unnamed secret"});
	run(&pair);
	assert_true(both_done(&pair));
	assert_string_equal(pair.proxy.identity.key_id, "");
	assert_int_equal(pair.proxy.identity.proved, KW_PROVED_KEY);
	kw_keyring_release(ring);
}

/* The ring is replaced before the n-th message of the handshake. */
static void a_key_withdrawn_meanwhile_is_not_let_in(void **state)
{
	for (int moment = 2; moment <= 4; moment++) {
		struct kw_keyring *ring = kw_keyring_new(
			(struct kw_slice){0}, kw_slice_text("key edge-1 " OLD_HEX), NULL);
		struct pair pair;

		begin_ends(&pair, &(struct ends){.keyring = &ring, .key_id = "edge-1"});
		pair.agent.secret = kw_slice(old_secret, 16);
		pair.agent.hello.flags = KW_WIRE_PROVES;
		pair.agent.output[offsetof(struct kw_hello, flags)] = KW_WIRE_PROVES;
		for (int message = 1; message < moment; message++)
			assert_true(message % 2 ? carry(&pair, &pair.agent, &pair.proxy)
						: carry(&pair, &pair.proxy, &pair.agent));
		assert_int_equal(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_PROVED), moment == 4);
		kw_keyring_release(ring);
		ring = kw_keyring_new(
			(struct kw_slice){0}, kw_slice_text("key edge-1 " NEW_HEX), NULL);
		if (moment == 4)
			kw_handshake_welcome(&pair.proxy, &facts);
		run(&pair);
		assert_true(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_FAILED));
		expect_text(pair.agent.error.text, "unknown secret");
		kw_keyring_release(ring);
	}
}

/* Neither an empty proof nor one under the key that stands in for an unknown one. */
static void nobodys_key_proves_nothing(void **state)
{
	static const char nobodys[32];
	const struct kw_channel channel = tcp_channel("10.0.0.9:7000");
	uint8_t nonce[KW_NONCE_BYTES] = {1};
	const struct kw_handshake_options options = {
		.secret = kw_slice(nobodys, sizeof nobodys),
		.name = "agent one",
		.key_id = "edge-1",
		.role = KW_ROLE_AGENT,
		.layout_version = KW_LAYOUT_VERSION,
		.channel = &channel,
		.nonce = nonce,
	};
	struct kw_proof none = {.header = {KW_HANDSHAKE_MAGIC, KW_PROOF, sizeof none}};
	struct pair pair;

	for (int i = 0; i < 2; i++) {
		begin(&pair, NULL, "s");
		kw_handshake_init_agent(&pair.agent, &options);
		assert_true(carry(&pair, &pair.agent, &pair.proxy));
		assert_true(carry(&pair, &pair.proxy, &pair.agent));
		if (i == 0)
			assert_int_equal(
				kw_handshake_input(&pair.proxy, &none, sizeof none), KW_E_REFUSED);
		else
			assert_true(carry(&pair, &pair.agent, &pair.proxy));
		assert_true(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_FAILED));
	}
}

/* Bytes that say nothing must be zero, so that a later version can say something with them. */
static void what_this_version_does_not_know_is_refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
	} wrong[] = {
		{offsetof(struct kw_hello, flags), 2},
		{offsetof(struct kw_hello, flags), 128},
		{offsetof(struct kw_hello, role), 0},
		{offsetof(struct kw_hello, role), 4},
		{offsetof(struct kw_hello, key_id_length), 1},
		{offsetof(struct kw_hello, key_id_length), 33},
		{offsetof(struct kw_hello, key_id_length), 255},
		{offsetof(struct kw_hello, key_id), 'a'},
		{offsetof(struct kw_hello, key_id) + 31, 'a'},
		{offsetof(struct kw_hello, reserved), 1},
		{offsetof(struct kw_hello, reserved) + 2, 1},
		{offsetof(struct kw_hello, carrier), 0},
		{offsetof(struct kw_hello, carrier), KW_CHANNEL_TLS},
		{offsetof(struct kw_hello, channel) + 18, 1},
		{offsetof(struct kw_hello, channel) + 39, 1},
	};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct kw_hello hello;
		struct pair pair;

		begin(&pair, NULL, NULL);
		memcpy(&hello, kw_handshake_output(&pair.agent).data, sizeof hello);
		((uint8_t *)&hello)[wrong[i].at] = wrong[i].value;
		if (kw_handshake_input(&pair.proxy, &hello, sizeof hello) == 0)
			fail_msg("byte %zu with %d was taken", wrong[i].at, wrong[i].value);
		assert_true(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_FAILED));
	}
	for (size_t at = offsetof(struct kw_challenge, flags);
		at < offsetof(struct kw_challenge, nonce); at++) {
		struct kw_challenge challenge;
		struct pair pair;

		begin(&pair, NULL, NULL);
		memcpy(&challenge, &pair.proxy.challenge, sizeof challenge);
		((uint8_t *)&challenge)[at] = 2;
		assert_int_equal(kw_handshake_input(&pair.agent, &challenge, sizeof challenge),
			KW_E_PROTOCOL);
	}
}

/* ---- other versions ---- */

/* A HELLO as version 0.1 sends it, which has its layout, 2, in the first field. */
static void make_old_hello(uint8_t bytes[112], const char *name)
{
	static const uint8_t head[16] = {'K', 'W', 'H', '1', 1, 0, 112, 0, 2, 0, 1, 0, 16, 0, 0, 0};

	memset(bytes, 0, 112);
	memcpy(bytes, head, sizeof head);
	bytes[11] = (uint8_t)strlen(name);
	memset(bytes + 16, 0xA0, KW_NONCE_BYTES);
	memcpy(bytes + 48, name, strlen(name));
}

static void an_agent_of_version_0_1_is_told_and_named(void **state)
{
	struct kw_refuse refuse;
	uint8_t bytes[112];
	struct pair pair;

	begin(&pair, "s", "s");
	make_old_hello(bytes, "edge-1");
	assert_int_equal(kw_handshake_input(&pair.proxy, bytes, sizeof bytes), KW_E_REFUSED);
	assert_string_equal(pair.proxy.error.text,
		"refused agent edge-1: it is of version 0.1, whose handshake can be relayed: "
		"upgrade it");
	/* It says its own sentence about a layout when it hears a number that is not its own. */
	assert_int_equal(kw_handshake_output(&pair.proxy).length, sizeof refuse);
	memcpy(&refuse, kw_handshake_output(&pair.proxy).data, sizeof refuse);
	assert_int_equal(refuse.reason, 1);
	assert_int_equal(refuse.version, 3);
	assert_int_equal(refuse.limit, 0);
	/* What it calls itself is shown only if that can be shown. */
	begin(&pair, "s", "s");
	make_old_hello(bytes, "edge\n1");
	assert_int_equal(kw_handshake_input(&pair.proxy, bytes, sizeof bytes), KW_E_REFUSED);
	expect_text(pair.proxy.error.text, "refused agent (unnamed): it is of version 0.1");
	begin(&pair, "s", "s");
	make_old_hello(bytes, "edge-1");
	bytes[11] = 255;
	assert_int_equal(kw_handshake_input(&pair.proxy, bytes, sizeof bytes), KW_E_REFUSED);
	expect_text(pair.proxy.error.text, "refused agent (unnamed): it is of version 0.1");
}

static void a_proxy_of_version_0_1_is_told_from_others(void **state)
{
	/* As version 0.1 sends it: reason 1, its layout 2. */
	static const uint8_t bytes[16] = {'K', 'W', 'H', '1', 5, 0, 16, 0, 1, 0, 2, 0, 0, 0, 0, 0};
	struct pair pair;

	begin(&pair, "s", "s");
	assert_int_equal(kw_handshake_input(&pair.agent, bytes, sizeof bytes), KW_E_REFUSED);
	assert_string_equal(pair.agent.error.text,
		"the proxy is of version 0.1, whose handshake can be relayed: upgrade the proxy");
}

static void another_version_is_named_even_when_its_hello_is_longer(void **state)
{
	uint8_t bytes[200] = {0};
	struct kw_hello hello;
	struct pair pair;

	begin(&pair, "s", "s");
	memcpy(&hello, kw_handshake_output(&pair.agent).data, sizeof hello);
	hello.header.length = sizeof bytes;
	hello.version = 9;
	memcpy(bytes, &hello, sizeof hello);
	assert_int_equal(kw_handshake_input(&pair.proxy, bytes, sizeof bytes), KW_E_REFUSED);
	expect_text(pair.proxy.error.text, "version 9, this proxy's 3");
	pair.agent.output_sent = pair.agent.output_length;
	assert_true(carry(&pair, &pair.proxy, &pair.agent));
	expect_text(pair.agent.error.text, "version 3, this agent's 3");
}

static void bytes_behind_the_end_are_not_taken(void **state)
{
	struct pair pair;
	uint8_t bytes[sizeof(struct kw_proof) + 1] = {0};

	begin(&pair, NULL, NULL);
	assert_true(carry(&pair, &pair.agent, &pair.proxy));
	assert_true(carry(&pair, &pair.proxy, &pair.agent));
	memcpy(bytes, kw_handshake_output(&pair.agent).data, sizeof(struct kw_proof));
	assert_int_equal(kw_handshake_input(&pair.proxy, bytes, sizeof bytes), KW_E_PROTOCOL);
	assert_true(kw_handshake_is(&pair.proxy, KW_HANDSHAKE_FAILED));
}

static void two_nonces_differ(void **state)
{
	uint8_t one[KW_NONCE_BYTES], two[KW_NONCE_BYTES];

	assert_int_equal(kw_handshake_nonce(one, NULL), 0);
	assert_int_equal(kw_handshake_nonce(two, NULL), 0);
	assert_memory_not_equal(one, two, sizeof one);
}

/* The descriptor that the kernel would give out next. */
static int next_fd(void)
{
	int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

/* One byte, and with it two descriptors. */
static void send_with_two(int fd)
{
	const int passed[2] = {fd, fd};
	struct iovec byte = {(char *)"K", 1};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof passed)];
	} control = {0};
	struct msghdr message = {.msg_iov = &byte,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof passed);
	memcpy(CMSG_DATA(head), passed, sizeof passed);
	assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), 1);
}

/* A process in a proxy's stead could otherwise use up the agent's descriptors, try by try. */
static void descriptors_that_nobody_asked_for_are_closed(void **state)
{
	const struct kw_channel channel = kw_channel_shm(1, 2);
	const uint8_t nonce[KW_NONCE_BYTES] = {1};
	const struct kw_handshake_options options = {.layout_version = KW_LAYOUT_VERSION,
		.nonce = nonce,
		.name = "a",
		.role = KW_ROLE_AGENT,
		.depth = 1,
		.channel = &channel};
	struct kw_exchange exchange = {.give_fd = -1, .taken_fd = -1, .takes_fd = true};
	struct kw_error error;
	struct kw_wire wire;
	int ends[2], before;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	kw_handshake_init_agent(&exchange.handshake, &options);
	wire = kw_wire_plain(ends[0]);
	before = next_fd();
	for (int i = 0; i < 3; i++) {
		send_with_two(ends[1]);
		assert_int_equal(kw_exchange_step(&exchange, &wire, &error), KW_EXCHANGE_READ);
	}
	assert_int_equal(exchange.taken_fd, before);
	assert_int_equal(next_fd(), before + 1);
	close(exchange.taken_fd);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_secrets_meet),
		cmocka_unit_test(a_grant_above_the_wish_is_lowered),
		cmocka_unit_test(a_scoped_key_is_told_with_the_welcome),
		cmocka_unit_test(a_wish_for_compression_is_answered),
		cmocka_unit_test(a_wish_to_sleep_is_answered),
		cmocka_unit_test(a_wish_changes_the_depth_alone),
		cmocka_unit_test(the_proxy_knows_as_whom_and_for_what),
		cmocka_unit_test(no_secret_on_either_side_meets_too),
		cmocka_unit_test(secrets_that_differ_are_refused_by_a_sentence),
		cmocka_unit_test(every_refusal_is_a_sentence_of_its_own),
		cmocka_unit_test(a_proxy_that_does_not_know_the_secret_is_found_out),
		cmocka_unit_test(every_flipped_bit_is_noticed_where_there_is_a_secret),
		cmocka_unit_test(any_cut_between_bytes_gives_the_same),
		cmocka_unit_test(a_message_cut_short_is_waited_for_and_never_believed),
		cmocka_unit_test(a_length_that_lies_is_refused),
		cmocka_unit_test(a_recorded_agent_cannot_be_replayed),
		cmocka_unit_test(a_recorded_proxy_cannot_be_replayed),
		cmocka_unit_test(a_proof_sent_back_proves_nothing),
		cmocka_unit_test(names_are_one_to_sixty_four_printable_characters),
		cmocka_unit_test(an_invalid_name_is_refused_at_the_door),
		cmocka_unit_test(another_layout_of_the_table_is_refused_with_both_named),
		cmocka_unit_test(of_two_layouts_the_older_one_is_to_be_upgraded),
		cmocka_unit_test(of_two_handshakes_the_older_one_is_to_be_upgraded),
		cmocka_unit_test(a_handshake_is_worth_nothing_on_another_connection),
		cmocka_unit_test(a_relay_that_rewrites_hello_is_refused),
		cmocka_unit_test(without_a_secret_the_carrier_and_the_socket_file_are_compared),
		cmocka_unit_test(an_address_of_a_tunnel_is_the_proxys_too),
		cmocka_unit_test(an_unknown_key_id_is_answered_like_a_wrong_secret),
		cmocka_unit_test(a_key_withdrawn_meanwhile_is_not_let_in),
		cmocka_unit_test(either_secret_of_an_id_is_proved_by_both),
		cmocka_unit_test(nobodys_key_proves_nothing),
		cmocka_unit_test(what_this_version_does_not_know_is_refused),
		cmocka_unit_test(an_agent_of_version_0_1_is_told_and_named),
		cmocka_unit_test(a_proxy_of_version_0_1_is_told_from_others),
		cmocka_unit_test(another_version_is_named_even_when_its_hello_is_longer),
		cmocka_unit_test(bytes_behind_the_end_are_not_taken),
		cmocka_unit_test(two_nonces_differ),
		cmocka_unit_test(descriptors_that_nobody_asked_for_are_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
