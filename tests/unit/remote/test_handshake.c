#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remote/handshake.h"

#include <stdio.h>
#include <string.h>

static const struct kw_handshake_facts facts = {
	.epoch = 77, .depth = 3, .extent = {.length = 1 << 20, .address = 5, .rkey = 6}};

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

static void begin_named(struct pair *pair, const char *agent_secret, const char *proxy_secret,
	const char *name, uint8_t salt)
{
	uint8_t agent_nonce[KW_NONCE_BYTES], proxy_nonce[KW_NONCE_BYTES];
	struct kw_handshake_options options = {
		.secret = kw_slice_text(agent_secret),
		.name = name,
		.layout_version = KW_LAYOUT_VERSION,
		.depth = 16,
		.nonce = agent_nonce,
	};

	memset(agent_nonce, 0xA0 + salt, sizeof agent_nonce);
	memset(proxy_nonce, 0x50 + salt, sizeof proxy_nonce);
	*pair = (struct pair){.flip_message = -1};
	kw_handshake_init_agent(&pair->agent, &options);
	options.secret = kw_slice_text(proxy_secret);
	options.nonce = proxy_nonce;
	options.name = NULL;
	kw_handshake_init_proxy(&pair->proxy, &options);
}

static void begin(struct pair *pair, const char *agent_secret, const char *proxy_secret)
{
	begin_named(pair, agent_secret, proxy_secret, "agent one", 0);
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
}

static void no_secret_on_either_side_meets_too(void **state)
{
	struct pair pair;

	begin(&pair, "", "");
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
	expect_refused("", "b", "a secret is required");
	expect_refused("a", "", "no secret to prove");
}

static void every_refusal_is_a_sentence_of_its_own(void **state)
{
	char seen[8][KW_ERROR_TEXT];

	for (int reason = KW_REFUSE_LAYOUT; reason <= KW_REFUSE_PROTOCOL + 1; reason++) {
		struct pair pair;

		begin(&pair, "", "");
		(void)kw_handshake_refuse(&pair.proxy, (enum kw_refusal)reason, 9);
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
	static const uint16_t lengths[] = {0, 7, 8, 9, 111, 113, 255, 257, 65535};

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

	begin_named(&old, "s", "s", "agent one", 0);
	run(&old);
	begin_named(&now, "s", "s", "agent one", 1);
	assert_int_equal(kw_handshake_input(&now.proxy, old.wire.bytes[0], old.wire.length[0]), 0);
	assert_int_equal(kw_handshake_input(&now.proxy, old.wire.bytes[2], old.wire.length[2]),
		KW_E_REFUSED);
	assert_non_null(strstr(now.proxy.error.text, "unknown secret"));
}

static void a_recorded_proxy_cannot_be_replayed(void **state)
{
	struct pair old, now;

	begin_named(&old, "s", "s", "agent one", 0);
	run(&old);
	begin_named(&now, "s", "s", "agent one", 1);
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
		begin(&pair, "", "");
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

static void another_layout_is_named_even_when_its_hello_is_longer(void **state)
{
	uint8_t bytes[200] = {0};
	struct kw_hello hello;
	struct pair pair;
	char ours[32];

	snprintf(ours, sizeof ours, "layout version %d", KW_LAYOUT_VERSION);
	begin(&pair, "s", "s");
	memcpy(&hello, kw_handshake_output(&pair.agent).data, sizeof hello);
	hello.header.length = sizeof bytes;
	hello.layout_version = 9;
	memcpy(bytes, &hello, sizeof hello);
	assert_int_equal(kw_handshake_input(&pair.proxy, bytes, sizeof bytes), KW_E_REFUSED);
	assert_non_null(strstr(pair.proxy.error.text, "version 9"));
	assert_true(carry(&pair, &pair.proxy, &pair.agent));
	assert_non_null(strstr(pair.agent.error.text, ours));
}

static void bytes_behind_the_end_are_not_taken(void **state)
{
	struct pair pair;
	uint8_t bytes[sizeof(struct kw_proof) + 1] = {0};

	begin(&pair, "", "");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_secrets_meet),
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
		cmocka_unit_test(another_layout_is_named_even_when_its_hello_is_longer),
		cmocka_unit_test(bytes_behind_the_end_are_not_taken),
		cmocka_unit_test(two_nonces_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
