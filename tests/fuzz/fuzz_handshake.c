/*
 * The handshake and the frames against bytes of anybody's.
 *
 * The first byte chooses: raw bytes into a proxy's or an agent's handshake, with or without a
 * secret; raw bytes as a stream of frames; raw bytes as a reply; or two honest ends whose messages
 * are altered on their way by (position, mask) pairs: with a secret they must never both be
 * content.
 */
#include "fuzz.h"

#include "remote/frame.h"
#include "remote/handshake.h"

#include <string.h>

/* The second has a secret. Both stay to the end. */
static struct kw_keyring **ring_of(int secret)
{
	static struct kw_keyring *rings[2];

	if (!rings[secret])
		rings[secret] = kw_keyring_new(
			kw_slice("fuzz", secret ? 4 : 0), (struct kw_slice){0}, NULL);
	return &rings[secret];
}

static void begin(struct kw_handshake *handshake, int agent, int secret)
{
	static const uint8_t nonces[2][KW_NONCE_BYTES] = {{1, 2, 3}, {4, 5, 6}};
	static const struct kw_endpoint proxy = {{[15] = 1}, 7000};
	const struct kw_channel channel = kw_channel_tcp(&proxy);
	const struct kw_handshake_options options = {
		.keyring = ring_of(secret),
		.secret = secret ? kw_slice_text("fuzz") : (struct kw_slice){0},
		.name = agent ? "fuzzer" : NULL,
		.role = KW_ROLE_GATEWAY,
		.channel = &channel,
		.layout_version = KW_LAYOUT_VERSION,
		.depth = 8,
		.nonce = nonces[agent],
	};

	if (agent) {
		kw_handshake_init_agent(handshake, &options);
	} else {
		kw_handshake_init_proxy(handshake, &options);
		kw_handshake_set_channel(handshake, &channel);
	}
}

static void welcome(struct kw_handshake *handshake)
{
	const struct kw_handshake_facts facts = {
		.epoch = 9, .depth = 1, .extent = {.length = 1 << 20}};

	if (kw_handshake_is(handshake, KW_HANDSHAKE_PROVED))
		kw_handshake_welcome(handshake, &facts);
}

/* Fed in pieces of at most what it wants, as a stream does, or all at once, as a message does. */
static void feed_raw(const uint8_t *data, size_t size, int agent, int secret, int whole)
{
	struct kw_handshake handshake;

	begin(&handshake, agent, secret);
	while (size > 0) {
		size_t take = whole ? size : kw_handshake_wants(&handshake);
		int code;

		if (take == 0 || take > size)
			take = size;
		code = kw_handshake_input(&handshake, data, take);
		must(code == 0 || handshake.error.text[0] != 0);
		data += take;
		size -= take;
		if (code != 0)
			break;
		kw_handshake_sent(&handshake, kw_handshake_output(&handshake).length);
		welcome(&handshake);
	}
	/* Nobody guesses an HMAC. */
	must(!secret || !kw_handshake_is(&handshake, KW_HANDSHAKE_DONE));
	must(kw_handshake_output(&handshake).length <= KW_HANDSHAKE_MESSAGE_MAX);
}

/* One message over the wire, altered; *data moves on. Returns how many bits changed. */
static int carry(
	struct kw_handshake *from, struct kw_handshake *to, const uint8_t **data, size_t *size)
{
	struct kw_slice output = kw_handshake_output(from);
	uint8_t bytes[KW_HANDSHAKE_MESSAGE_MAX];
	int changed = 0;

	if (output.length == 0)
		return 0;
	memcpy(bytes, output.data, output.length);
	kw_handshake_sent(from, output.length);
	if (*size >= 2) {
		bytes[(*data)[0] % output.length] ^= (*data)[1];
		changed = (*data)[1] != 0;
		*data += 2;
		*size -= 2;
	}
	(void)kw_handshake_input(to, bytes, output.length);
	return changed;
}

static void between_two(const uint8_t *data, size_t size, int secret)
{
	struct kw_handshake agent, proxy;
	int changed = 0;

	begin(&agent, 1, secret);
	begin(&proxy, 0, secret);
	for (int i = 0; i < 3; i++) {
		changed += carry(&agent, &proxy, &data, &size);
		welcome(&proxy);
		changed += carry(&proxy, &agent, &data, &size);
	}
	if (changed == 0)
		must(kw_handshake_is(&agent, KW_HANDSHAKE_DONE) &&
			kw_handshake_is(&proxy, KW_HANDSHAKE_DONE));
	else if (secret)
		must(!kw_handshake_is(&agent, KW_HANDSHAKE_DONE));
}

static void feed_frames(const uint8_t *data, size_t size)
{
	struct kw_frame frame;
	struct kw_error error;
	size_t taken;

	while (kw_frame_take(data, size, &taken, &frame, &error) == 0 && taken > 0) {
		must(taken <= size && taken <= KW_FRAME_MAX);
		if (frame.op == KW_FRAME_READ)
			must(frame.length >= 1 && frame.length <= KW_READ_MAX);
		else
			must(memchr(frame.progress.state, 0, sizeof frame.progress.state) != NULL);
		data += taken;
		size -= taken;
	}
}

static void feed_reply(const uint8_t *data, size_t size)
{
	struct kw_frame_reply reply;
	struct kw_error error;

	if (size < sizeof reply)
		return;
	memcpy(&reply, data, sizeof reply);
	if (kw_frame_check_reply(&reply, &(struct kw_frame_due){.id = 3, .length = 99}, &error) ==
		0)
		must(reply.id == 3 && reply.length == 99 && reply.status == KW_FRAME_OK);
	else
		must(error.text[0] != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t choice;

	if (size == 0)
		return 0;
	choice = data[0];
	data++;
	size--;
	switch (choice & 3) {
	case 0:
		feed_raw(data, size, (choice >> 2) & 1, (choice >> 3) & 1, (choice >> 4) & 1);
		break;
	case 1:
		between_two(data, size, (choice >> 2) & 1);
		break;
	case 2:
		feed_frames(data, size);
		break;
	default:
		feed_reply(data, size);
	}
	return 0;
}

/* A HELLO of version 0.1, and its REFUSE. */
static const uint8_t old_hello[112] = {'K', 'W', 'H', '1', 1, 0, 112, 0, 2, 0, 1, 6, 16, 0, 0,
	0, [48] = 'f', 'u', 'z', 'z', 'e', 'r'};
static const uint8_t old_refuse[16] = {'K', 'W', 'H', '1', 5, 0, 16, 0, 1, 0, 2};

/* What an honest other end would send, by choice: HELLO, CHALLENGE, then frames and a reply. */
static size_t seed_bytes(unsigned n, uint8_t *data)
{
	const struct kw_remote_progress progress = {1, 2, 3, "warm"};
	struct kw_frame_report report;
	struct kw_frame_reply reply;
	struct kw_frame_read read;
	struct kw_handshake end;
	struct kw_slice output;

	switch (n) {
	case 0: /* a HELLO for the proxy */
		begin(&end, 1, 1);
		output = kw_handshake_output(&end);
		memcpy(data, output.data, output.length);
		return output.length;
	case 1: /* a CHALLENGE for the agent */
		begin(&end, 0, 1);
		memcpy(data, &end.challenge, sizeof end.challenge);
		return sizeof end.challenge;
	case 2:
		kw_frame_encode_read(&read, 1, 2, 3);
		kw_frame_encode_report(&report, &progress);
		memcpy(data, &read, sizeof read);
		memcpy(data + sizeof read, &report, sizeof report);
		return sizeof read + sizeof report;
	case 3:
		kw_frame_encode_reply(&reply, KW_FRAME_OK, 3, 99);
		memcpy(data, &reply, sizeof reply);
		return sizeof reply;
	case 7:
		memcpy(data, old_hello, sizeof old_hello);
		return sizeof old_hello;
	case 8:
		memcpy(data, old_refuse, sizeof old_refuse);
		return sizeof old_refuse;
	default: /* two ends, one byte altered */
		data[0] = (uint8_t)(n * 5);
		data[1] = 0x10;
		return 2;
	}
}

size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most)
{
	/* The choice in front: see LLVMFuzzerTestOneInput. */
	static const uint8_t choices[] = {0x08, 0x0c, 2, 3, 5, 1, 5, 0x08, 0x0c};

	if (n >= sizeof choices || most < 1 + KW_HANDSHAKE_MESSAGE_MAX)
		return 0;
	data[0] = choices[n];
	return 1 + seed_bytes(n, data + 1);
}
