#include "remote/handshake.h"

#include <errno.h>
#include <inttypes.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>
#include <sys/random.h>

static_assert(SHA256_DIGEST_SIZE == KW_PROOF_BYTES, "");

/* The direction of a proof; 16 bytes each, so that no label is the beginning of another. */
static const char label_agent[16] = "keywake agent 1";
static const char label_proxy[16] = "keywake proxy 1";

static const struct kw_sm_state states[] = {
	[KW_HANDSHAKE_CHALLENGE_WAIT] = {"challenge_wait",
		KW_SM_TO(KW_HANDSHAKE_WELCOME_WAIT) | KW_SM_TO(KW_HANDSHAKE_FAILED), KW_SM_INITIAL},
	[KW_HANDSHAKE_WELCOME_WAIT] = {"welcome_wait",
		KW_SM_TO(KW_HANDSHAKE_DONE) | KW_SM_TO(KW_HANDSHAKE_FAILED)},
	[KW_HANDSHAKE_HELLO_WAIT] = {"hello_wait",
		KW_SM_TO(KW_HANDSHAKE_PROOF_WAIT) | KW_SM_TO(KW_HANDSHAKE_FAILED), KW_SM_INITIAL},
	[KW_HANDSHAKE_PROOF_WAIT] = {"proof_wait",
		KW_SM_TO(KW_HANDSHAKE_PROVED) | KW_SM_TO(KW_HANDSHAKE_FAILED)},
	[KW_HANDSHAKE_PROVED] = {"proved",
		KW_SM_TO(KW_HANDSHAKE_DONE) | KW_SM_TO(KW_HANDSHAKE_FAILED)},
	[KW_HANDSHAKE_DONE] = {"done", 0, KW_SM_FINAL},
	[KW_HANDSHAKE_FAILED] = {"failed", 0, KW_SM_FINAL | KW_SM_FAILURE},
};

static const struct kw_sm_conf machine = {
	.where = "handshake",
	.states = states,
	.count = sizeof states / sizeof *states,
};

int kw_handshake_nonce(uint8_t nonce[KW_NONCE_BYTES], struct kw_error *error)
{
	/* Up to 256 bytes come whole or not at all (getrandom(2)). */
	if (getrandom(nonce, KW_NONCE_BYTES, 0) != KW_NONCE_BYTES)
		return kw_error_errno(error, errno, "no random bytes for a nonce");
	return 0;
}

static bool name_bytes_valid(const char *name, size_t length)
{
	if (length == 0 || length > KW_AGENT_NAME_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if (name[i] < 0x20 || name[i] > 0x7e)
			return false;
	return true;
}

bool kw_agent_name_valid(const char *name)
{
	return name_bytes_valid(name, strnlen(name, KW_AGENT_NAME_MAX + 1));
}

static struct kw_handshake_header header(enum kw_handshake_type type, size_t length)
{
	return (struct kw_handshake_header){KW_HANDSHAKE_MAGIC, (uint16_t)type, (uint16_t)length};
}

static void queue_output(struct kw_handshake *handshake, const void *message, size_t length)
{
	assert(length <= sizeof handshake->output);
	memcpy(handshake->output, message, length);
	handshake->output_length = length;
	handshake->output_sent = 0;
}

static void init(struct kw_handshake *handshake, const struct kw_handshake_options *options,
	enum kw_handshake_state state)
{
	*handshake = (struct kw_handshake){
		.secret = options->secret,
		.layout_version = options->layout_version,
		.depth = options->depth,
	};
	kw_sm_init(&handshake->sm, &machine, handshake, (int)state);
}

void kw_handshake_init_agent(
	struct kw_handshake *handshake, const struct kw_handshake_options *options)
{
	struct kw_hello *hello = &handshake->hello;

	init(handshake, options, KW_HANDSHAKE_CHALLENGE_WAIT);
	assert(kw_agent_name_valid(options->name));
	strcpy(handshake->name, options->name);
	hello->header = header(KW_HELLO, sizeof *hello);
	hello->layout_version = options->layout_version;
	hello->secret = options->secret.length > 0;
	hello->name_length = (uint8_t)strlen(options->name);
	hello->depth = options->depth;
	memcpy(hello->nonce, options->nonce, KW_NONCE_BYTES);
	memcpy(hello->name, options->name, hello->name_length);
	queue_output(handshake, hello, sizeof *hello);
}

void kw_handshake_init_proxy(
	struct kw_handshake *handshake, const struct kw_handshake_options *options)
{
	struct kw_challenge *challenge = &handshake->challenge;

	init(handshake, options, KW_HANDSHAKE_HELLO_WAIT);
	challenge->header = header(KW_CHALLENGE, sizeof *challenge);
	challenge->layout_version = options->layout_version;
	challenge->secret = options->secret.length > 0;
	memcpy(challenge->nonce, options->nonce, KW_NONCE_BYTES);
}

void kw_handshake_set_channel(struct kw_handshake *handshake, const struct kw_channel *channel)
{
	assert(kw_handshake_is(handshake, KW_HANDSHAKE_HELLO_WAIT));
	assert(channel->kind != KW_CHANNEL_NONE);
	handshake->channel = *channel;
}

/* welcome: NULL for the agent's proof. Without a secret the proof is zero. */
static void prove(const struct kw_handshake *handshake, const struct kw_welcome *welcome,
	uint8_t proof[KW_PROOF_BYTES])
{
	struct hmac_sha256_ctx context;

	memset(proof, 0, KW_PROOF_BYTES);
	if (handshake->secret.length == 0)
		return;
	hmac_sha256_set_key(&context, handshake->secret.length, handshake->secret.data);
	hmac_sha256_update(&context, sizeof label_agent,
		(const uint8_t *)(welcome ? label_proxy : label_agent));
	hmac_sha256_update(&context, sizeof handshake->hello, (const uint8_t *)&handshake->hello);
	hmac_sha256_update(
		&context, sizeof handshake->challenge, (const uint8_t *)&handshake->challenge);
	if (welcome)
		hmac_sha256_update(&context, sizeof *welcome - offsetof(struct kw_welcome, epoch),
			(const uint8_t *)&welcome->epoch);
	hmac_sha256_digest(&context, KW_PROOF_BYTES, proof);
	explicit_bzero(&context, sizeof context);
}

/* The error is set; the machine ends. */
static int fail(struct kw_handshake *handshake)
{
	kw_sm_move(&handshake->sm, KW_HANDSHAKE_FAILED, handshake->error.text);
	return (int)handshake->error.code;
}

static void refusal_sentence(struct kw_handshake *handshake, enum kw_refusal reason, uint32_t limit)
{
	struct kw_error *error = &handshake->error;
	const char *who = handshake->name[0] ? handshake->name : "(unnamed)";

	switch (reason) {
	case KW_REFUSE_LAYOUT:
		kw_error_set(error, KW_E_REFUSED,
			"refused: the agent reads layout version %u, this table has %u: upgrade "
			"the older one",
			handshake->hello.layout_version, handshake->layout_version);
		break;
	case KW_REFUSE_SECRET_UNKNOWN:
		kw_error_set(error, KW_E_REFUSED, "refused agent %s: unknown secret", who);
		break;
	case KW_REFUSE_SECRET_REQUIRED:
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: it gave no secret, and one is required", who);
		break;
	case KW_REFUSE_NAME:
		kw_error_set(error, KW_E_REFUSED, "refused: an agent without a valid name");
		break;
	case KW_REFUSE_SESSIONS:
		kw_error_set(error, KW_E_REFUSED, "refused agent %s: too many sessions", who);
		break;
	case KW_REFUSE_SHUTDOWN:
		kw_error_set(error, KW_E_REFUSED, "refused agent %s: shutting down", who);
		break;
	case KW_REFUSE_PROTOCOL:
		kw_error_set(error, KW_E_PROTOCOL, "refused: bytes that are no handshake");
		break;
	case KW_REFUSE_PEER:
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: its user is none of shm.users, and it gave no secret",
			who);
		break;
	case KW_REFUSE_NAME_LIMIT:
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: there are %" PRIu32
			" sessions of that name (remote.sessions_per_name)",
			who, limit);
		break;
	case KW_REFUSE_PEER_LIMIT:
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: there are %" PRIu32
			" sessions of its host or user (remote.sessions_per_peer)",
			who, limit);
		break;
	}
}

int kw_handshake_refuse(struct kw_handshake *handshake, enum kw_refusal reason, uint32_t limit)
{
	struct kw_refuse refuse = {
		.header = header(KW_REFUSE, sizeof refuse),
		.reason = (uint16_t)reason,
		.layout_version = handshake->layout_version,
		.limit = limit,
	};

	queue_output(handshake, &refuse, sizeof refuse);
	refusal_sentence(handshake, reason, limit);
	return fail(handshake);
}

/* Bytes that are no handshake: the proxy says so, the agent just ends. */
static int broken(struct kw_handshake *handshake, const char *what)
{
	bool proxy = kw_handshake_is(handshake, KW_HANDSHAKE_HELLO_WAIT) ||
		     kw_handshake_is(handshake, KW_HANDSHAKE_PROOF_WAIT);

	if (proxy) {
		kw_handshake_refuse(handshake, KW_REFUSE_PROTOCOL, 0);
		kw_error_set(&handshake->error, KW_E_PROTOCOL, "%s", what);
		return (int)KW_E_PROTOCOL;
	}
	kw_error_set(&handshake->error, KW_E_PROTOCOL, "%s", what);
	return fail(handshake);
}

static bool all_zero(const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < length; i++)
		if (at[i] != 0)
			return false;
	return true;
}

static int hear_hello(struct kw_handshake *handshake, size_t length)
{
	struct kw_hello *hello = &handshake->hello;

	/* The layout version comes first: a HELLO of another version can have another length. */
	memset(hello, 0, sizeof *hello);
	memcpy(hello, handshake->input, length < sizeof *hello ? length : sizeof *hello);
	if (length < offsetof(struct kw_hello, secret))
		return broken(handshake, "a HELLO too short for a layout version");
	if (hello->layout_version != handshake->layout_version)
		return kw_handshake_refuse(handshake, KW_REFUSE_LAYOUT, 0);
	if (length != sizeof *hello || hello->secret > 1)
		return broken(handshake, "a HELLO of the wrong form");
	if (hello->name_length > KW_AGENT_NAME_MAX ||
		!name_bytes_valid(hello->name, hello->name_length) ||
		!all_zero(hello->name + hello->name_length, KW_AGENT_NAME_MAX - hello->name_length))
		return kw_handshake_refuse(handshake, KW_REFUSE_NAME, 0);
	memcpy(handshake->name, hello->name, hello->name_length);
	handshake->depth = hello->depth;
	if (handshake->secret.length > 0 && !hello->secret)
		return kw_handshake_refuse(handshake, KW_REFUSE_SECRET_REQUIRED, 0);
	queue_output(handshake, &handshake->challenge, sizeof handshake->challenge);
	kw_sm_move(&handshake->sm, KW_HANDSHAKE_PROOF_WAIT, handshake->name);
	return 0;
}

static int hear_proof(struct kw_handshake *handshake, size_t length)
{
	uint8_t expected[KW_PROOF_BYTES];
	struct kw_proof proof;

	if (length != sizeof proof)
		return broken(handshake, "a PROOF of the wrong length");
	memcpy(&proof, handshake->input, sizeof proof);
	prove(handshake, NULL, expected);
	if (!memeql_sec(expected, proof.proof, sizeof expected))
		return kw_handshake_refuse(handshake, KW_REFUSE_SECRET_UNKNOWN, 0);
	handshake->identity = (struct kw_identity){
		.proved = handshake->secret.length > 0 ? KW_PROVED_KEY : KW_PROVED_NOTHING,
		.role = KW_ROLE_AGENT,
	};
	kw_sm_move(&handshake->sm, KW_HANDSHAKE_PROVED, handshake->name);
	return 0;
}

static int hear_challenge(struct kw_handshake *handshake, size_t length)
{
	struct kw_challenge *challenge = &handshake->challenge;
	struct kw_proof proof = {.header = header(KW_PROOF, sizeof proof)};

	if (length != sizeof *challenge)
		return broken(handshake, "the proxy sent a CHALLENGE of the wrong length");
	memcpy(challenge, handshake->input, sizeof *challenge);
	if (challenge->secret > 1 || !all_zero(challenge->reserved, sizeof challenge->reserved))
		return broken(handshake, "the proxy sent a CHALLENGE of the wrong form");
	if (challenge->layout_version != handshake->layout_version) {
		kw_error_set(&handshake->error, KW_E_REFUSED,
			"the proxy's table has layout version %u, this agent reads %u: upgrade the "
			"older one",
			challenge->layout_version, handshake->layout_version);
		return fail(handshake);
	}
	if (handshake->secret.length > 0 && !challenge->secret) {
		kw_error_set(&handshake->error, KW_E_REFUSED,
			"the proxy has no secret to prove, but auth.secret_file is set here: set "
			"it on the "
			"proxy too, or remove it here");
		return fail(handshake);
	}
	prove(handshake, NULL, proof.proof);
	queue_output(handshake, &proof, sizeof proof);
	kw_sm_move(&handshake->sm, KW_HANDSHAKE_WELCOME_WAIT, "");
	return 0;
}

static int hear_welcome(struct kw_handshake *handshake, size_t length)
{
	uint8_t expected[KW_PROOF_BYTES];
	struct kw_welcome welcome;

	if (length != sizeof welcome)
		return broken(handshake, "the proxy sent a WELCOME of the wrong length");
	memcpy(&welcome, handshake->input, sizeof welcome);
	prove(handshake, &welcome, expected);
	if (!memeql_sec(expected, welcome.proof, sizeof expected)) {
		kw_error_set(&handshake->error, KW_E_REFUSED,
			"the proxy could not prove that it knows the secret: auth.secret_file must "
			"hold the "
			"same bytes on both sides");
		return fail(handshake);
	}
	if (welcome.reserved != 0 || welcome.depth == 0 || welcome.depth > handshake->depth ||
		welcome.extent.offset != 0 || welcome.extent.length < sizeof(struct kw_superblock))
		return broken(handshake, "the proxy sent a WELCOME that makes no sense");
	handshake->facts = (struct kw_handshake_facts){
		.epoch = welcome.epoch,
		.depth = welcome.depth,
		.extent = welcome.extent,
	};
	kw_sm_move(&handshake->sm, KW_HANDSHAKE_DONE, "");
	return 0;
}

static int hear_refuse(struct kw_handshake *handshake, size_t length)
{
	struct kw_error *error = &handshake->error;
	struct kw_refuse refuse;

	if (length != sizeof refuse)
		return broken(handshake, "the proxy sent a REFUSE of the wrong length");
	memcpy(&refuse, handshake->input, sizeof refuse);
	kw_error_set(error, KW_E_REFUSED,
		"the proxy refused, for reason %u, which this build does not know", refuse.reason);
	switch ((enum kw_refusal)refuse.reason) {
	case KW_REFUSE_LAYOUT:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: its table has layout version %u, this agent reads %u: "
			"upgrade "
			"the older one",
			refuse.layout_version, handshake->layout_version);
		break;
	case KW_REFUSE_SECRET_UNKNOWN:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: unknown secret: auth.secret_file must hold the same "
			"bytes on "
			"both sides");
		break;
	case KW_REFUSE_SECRET_REQUIRED:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: a secret is required: set auth.secret_file to the "
			"proxy's");
		break;
	case KW_REFUSE_NAME:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: the agent's name must be 1 to %d printable ASCII "
			"characters",
			KW_AGENT_NAME_MAX);
		break;
	case KW_REFUSE_SESSIONS:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: it has %" PRIu32
			" sessions already, as many as it may have",
			refuse.limit);
		break;
	case KW_REFUSE_SHUTDOWN:
		kw_error_set(error, KW_E_REFUSED, "the proxy refused: it is shutting down");
		break;
	case KW_REFUSE_PROTOCOL:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: it did not understand this agent's handshake");
		break;
	case KW_REFUSE_PEER:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: this user is none of its shm.users: add it there, or "
			"set auth.secret_file on both sides");
		break;
	case KW_REFUSE_NAME_LIMIT:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: it has %" PRIu32
			" sessions of this name already: give each agent another name, or raise "
			"remote.sessions_per_name there",
			refuse.limit);
		break;
	case KW_REFUSE_PEER_LIMIT:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: it has %" PRIu32
			" sessions of this host or user already: raise remote.sessions_per_peer "
			"there",
			refuse.limit);
		break;
	}
	return fail(handshake);
}

/* Which message is due, and is this header one that may come now? */
static bool header_expected(
	const struct kw_handshake *handshake, const struct kw_handshake_header *head)
{
	if (head->magic != KW_HANDSHAKE_MAGIC || head->length <= sizeof *head ||
		head->length > KW_HANDSHAKE_MESSAGE_MAX)
		return false;
	switch ((enum kw_handshake_state)handshake->sm.state) {
	case KW_HANDSHAKE_HELLO_WAIT:
		return head->type == KW_HELLO;
	case KW_HANDSHAKE_PROOF_WAIT:
		return head->type == KW_PROOF;
	case KW_HANDSHAKE_CHALLENGE_WAIT:
		return head->type == KW_CHALLENGE || head->type == KW_REFUSE;
	case KW_HANDSHAKE_WELCOME_WAIT:
		return head->type == KW_WELCOME || head->type == KW_REFUSE;
	default:
		return false;
	}
}

static int hear(struct kw_handshake *handshake, const struct kw_handshake_header *head)
{
	switch ((enum kw_handshake_type)head->type) {
	case KW_HELLO:
		return hear_hello(handshake, head->length);
	case KW_CHALLENGE:
		return hear_challenge(handshake, head->length);
	case KW_PROOF:
		return hear_proof(handshake, head->length);
	case KW_WELCOME:
		return hear_welcome(handshake, head->length);
	case KW_REFUSE:
		return hear_refuse(handshake, head->length);
	}
	return broken(handshake, "a handshake message of unknown kind");
}

size_t kw_handshake_wants(const struct kw_handshake *handshake)
{
	struct kw_handshake_header head;

	if (handshake->sm.state >= KW_HANDSHAKE_PROVED)
		return 0;
	if (handshake->input_length < sizeof head)
		return sizeof head - handshake->input_length;
	memcpy(&head, handshake->input, sizeof head);
	return head.length - handshake->input_length;
}

int kw_handshake_input(struct kw_handshake *handshake, const void *bytes, size_t length)
{
	struct kw_handshake_header head;
	const uint8_t *at = bytes;

	/* Each turn takes at least one byte, so `length` bounds the loop. */
	while (length > 0) {
		size_t take = kw_handshake_wants(handshake);

		if (take == 0) {
			if (kw_handshake_is(handshake, KW_HANDSHAKE_FAILED))
				return (int)handshake->error.code;
			kw_error_set(&handshake->error, KW_E_PROTOCOL,
				"more bytes than the handshake has");
			if (kw_handshake_is(handshake, KW_HANDSHAKE_PROVED))
				return fail(handshake);
			return (int)KW_E_PROTOCOL;
		}
		if (take > length)
			take = length;
		memcpy(handshake->input + handshake->input_length, at, take);
		handshake->input_length += take;
		at += take;
		length -= take;
		if (handshake->input_length < sizeof head)
			continue;
		memcpy(&head, handshake->input, sizeof head);
		if (!header_expected(handshake, &head))
			return broken(handshake, "bytes that are no handshake message due now (is "
						 "this address keywake's?)");
		if (handshake->input_length < head.length)
			continue;
		handshake->input_length = 0;
		if (hear(handshake, &head) != 0)
			return (int)handshake->error.code;
	}
	return 0;
}

struct kw_slice kw_handshake_output(const struct kw_handshake *handshake)
{
	return kw_slice(handshake->output + handshake->output_sent,
		handshake->output_length - handshake->output_sent);
}

void kw_handshake_sent(struct kw_handshake *handshake, size_t length)
{
	assert(length <= handshake->output_length - handshake->output_sent);
	handshake->output_sent += length;
}

void kw_handshake_welcome(struct kw_handshake *handshake, const struct kw_handshake_facts *facts)
{
	struct kw_welcome welcome = {
		.header = header(KW_WELCOME, sizeof welcome),
		.epoch = facts->epoch,
		.depth = facts->depth,
		.extent = facts->extent,
	};

	prove(handshake, &welcome, welcome.proof);
	handshake->facts = *facts;
	queue_output(handshake, &welcome, sizeof welcome);
	kw_sm_move(&handshake->sm, KW_HANDSHAKE_DONE, "");
}
