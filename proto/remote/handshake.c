#include "remote/handshake.h"

#include "remote/refusal.h"

#include <errno.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>
#include <sys/random.h>

static_assert(SHA256_DIGEST_SIZE == KW_PROOF_BYTES, "");

/* The direction of a proof; 16 bytes each, so that no label is the beginning of another. */
static const char label_agent[16] = "keywake agent 3";
static const char label_proxy[16] = "keywake proxy 3";

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
		.keyring = options->keyring,
		.addresses = options->addresses,
		.layout_version = options->layout_version,
		.depth = options->depth,
		.compress = options->compress,
		.sleeps = options->sleeps,
	};
	kw_sm_init(&handshake->sm, &machine, handshake, (int)state);
}

/* Who it is, and what it is connected to. */
static void fill_hello(struct kw_hello *hello, const struct kw_handshake_options *options)
{
	const char *key_id = options->key_id ? options->key_id : "";

	assert(kw_agent_name_valid(options->name));
	assert(options->role >= KW_ROLE_AGENT && options->role <= KW_ROLE_INSPECTOR);
	assert(options->channel->kind != KW_CHANNEL_NONE);
	assert(!*key_id || kw_key_id_valid(key_id, strlen(key_id)));
	hello->role = (uint8_t)options->role;
	hello->name_length = (uint8_t)strlen(options->name);
	memcpy(hello->name, options->name, hello->name_length);
	hello->key_id_length = (uint8_t)strlen(key_id);
	memcpy(hello->key_id, key_id, hello->key_id_length);
	hello->carrier = (uint8_t)options->channel->kind;
	memcpy(hello->channel, options->channel->bytes, sizeof hello->channel);
}

void kw_handshake_init_agent(
	struct kw_handshake *handshake, const struct kw_handshake_options *options)
{
	struct kw_hello *hello = &handshake->hello;

	init(handshake, options, KW_HANDSHAKE_CHALLENGE_WAIT);
	hello->header = header(KW_HELLO, sizeof *hello);
	hello->version = KW_WIRE_VERSION;
	hello->layout_version = options->layout_version;
	hello->flags = options->secret.length > 0 ? KW_WIRE_PROVES : 0;
	assert(!(options->depth & KW_WIRE_WISHES));
	hello->depth = options->depth | (options->compress ? KW_WIRE_COMPRESS : 0) |
		       (options->sleeps ? KW_WIRE_SLEEPS : 0);
	memcpy(hello->nonce, options->nonce, KW_NONCE_BYTES);
	fill_hello(hello, options);
	strcpy(handshake->name, options->name);
	handshake->channel = *options->channel;
	queue_output(handshake, hello, sizeof *hello);
}

void kw_handshake_init_proxy(
	struct kw_handshake *handshake, const struct kw_handshake_options *options)
{
	struct kw_challenge *challenge = &handshake->challenge;

	init(handshake, options, KW_HANDSHAKE_HELLO_WAIT);
	challenge->header = header(KW_CHALLENGE, sizeof *challenge);
	challenge->version = KW_WIRE_VERSION;
	challenge->layout_version = options->layout_version;
	if (options->keyring && kw_keyring_count(*options->keyring) > 0)
		challenge->flags = KW_WIRE_PROVES;
	memcpy(challenge->nonce, options->nonce, KW_NONCE_BYTES);
}

void kw_handshake_set_channel(struct kw_handshake *handshake, const struct kw_channel *channel)
{
	assert(kw_handshake_is(handshake, KW_HANDSHAKE_HELLO_WAIT));
	assert(channel->kind != KW_CHANNEL_NONE);
	handshake->channel = *channel;
}

void kw_handshake_set_certificate(struct kw_handshake *handshake, const char *id)
{
	struct kw_identity *identity = &handshake->identity;

	assert(kw_handshake_is(handshake, KW_HANDSHAKE_HELLO_WAIT));
	assert(*id && strlen(id) <= KW_CERTIFICATE_ID_MAX);
	strcpy(identity->certificate, id);
	identity->proved = KW_PROVED_CERTIFICATE;
}

/* welcome: NULL for the agent's proof. Without a key the proof is zero. */
static void prove(const struct kw_handshake *handshake, struct kw_slice key,
	const struct kw_welcome *welcome, uint8_t proof[KW_PROOF_BYTES])
{
	struct hmac_sha256_ctx context;

	memset(proof, 0, KW_PROOF_BYTES);
	if (key.length == 0)
		return;
	hmac_sha256_set_key(&context, key.length, key.data);
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

int kw_handshake_refuse(struct kw_handshake *handshake, enum kw_refusal reason, uint32_t limit)
{
	struct kw_refuse refuse = {
		.header = header(KW_REFUSE, sizeof refuse),
		.reason = (uint16_t)reason,
		.version = KW_WIRE_VERSION,
		.limit = limit,
	};

	queue_output(handshake, &refuse, sizeof refuse);
	kw_refusal_given(handshake, reason, limit, &handshake->error);
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

/* All bytes after the version have the form of this version. */
static bool hello_has_form(const struct kw_hello *hello)
{
	return (hello->flags & ~KW_WIRE_PROVES) == 0 && hello->role >= KW_ROLE_AGENT &&
	       hello->role <= KW_ROLE_INSPECTOR &&
	       all_zero(hello->reserved, sizeof hello->reserved) &&
	       (hello->key_id_length == 0 ||
		       kw_key_id_valid(hello->key_id, hello->key_id_length)) &&
	       all_zero(hello->key_id + hello->key_id_length,
		       sizeof hello->key_id - hello->key_id_length);
}

static bool name_has_form(const struct kw_hello *hello)
{
	return hello->name_length <= KW_AGENT_NAME_MAX &&
	       name_bytes_valid(hello->name, hello->name_length) &&
	       all_zero(hello->name + hello->name_length, KW_AGENT_NAME_MAX - hello->name_length);
}

static bool needs_key(const struct kw_handshake *handshake)
{
	return handshake->challenge.flags & KW_WIRE_PROVES;
}

/* Did the agent's end of this connection dial what arrived here? */
static bool channel_holds(const struct kw_handshake *handshake)
{
	const struct kw_hello *hello = &handshake->hello;
	struct kw_channel said;

	assert(handshake->channel.kind != KW_CHANNEL_NONE);
	if (!kw_channel_decode(hello->carrier, hello->channel, &said))
		return false;
	if (!needs_key(handshake) && handshake->channel.kind != KW_CHANNEL_SHM &&
		handshake->channel.kind != KW_CHANNEL_TLS)
		return said.kind == handshake->channel.kind;
	return kw_channel_compare(&said, &handshake->channel, handshake->addresses) ==
	       KW_CHANNEL_SAME;
}

static int hear_hello(struct kw_handshake *handshake, size_t length)
{
	struct kw_hello *hello = &handshake->hello;

	/* The version comes first: a HELLO of another version can have another length. */
	memset(hello, 0, sizeof *hello);
	memcpy(hello, handshake->input, length < sizeof *hello ? length : sizeof *hello);
	if (length < offsetof(struct kw_hello, layout_version))
		return broken(handshake, "a HELLO too short for a version");
	if (hello->version != KW_WIRE_VERSION)
		return kw_handshake_refuse(handshake, KW_REFUSE_VERSION, 0);
	if (length != sizeof *hello || !hello_has_form(hello))
		return broken(handshake, "a HELLO of the wrong form");
	if (!name_has_form(hello))
		return kw_handshake_refuse(handshake, KW_REFUSE_NAME, 0);
	memcpy(handshake->name, hello->name, hello->name_length);
	handshake->depth = hello->depth & ~KW_WIRE_WISHES;
	handshake->compress = hello->depth & KW_WIRE_COMPRESS;
	handshake->sleeps = hello->depth & KW_WIRE_SLEEPS;
	if (hello->layout_version != handshake->layout_version)
		return kw_handshake_refuse(handshake, KW_REFUSE_TABLE, handshake->layout_version);
	if (!channel_holds(handshake))
		return kw_handshake_refuse(handshake, KW_REFUSE_CHANNEL, 0);
	/* The certificate stands in for a key that is not there. */
	if (*handshake->identity.certificate && !(hello->flags & KW_WIRE_PROVES))
		handshake->challenge.flags &= (uint8_t)~KW_WIRE_PROVES;
	if (needs_key(handshake) && !(hello->flags & KW_WIRE_PROVES))
		return kw_handshake_refuse(handshake, KW_REFUSE_SECRET_REQUIRED, 0);
	queue_output(handshake, &handshake->challenge, sizeof handshake->challenge);
	kw_sm_move(&handshake->sm, KW_HANDSHAKE_PROOF_WAIT, handshake->name);
	return 0;
}

/* The keys of which the agent must prove one; none if nobody has the id that it named. */
static size_t find_keys(
	const struct kw_handshake *handshake, const struct kw_key *keys[KW_KEY_LINES_MAX])
{
	char id[KW_KEY_ID_MAX + 1] = "";

	memcpy(id, handshake->hello.key_id, handshake->hello.key_id_length);
	return kw_keyring_find(*handshake->keyring, id, keys);
}

/*
 * Which of the keys was proved? NULL: none. A key id that nobody has is answered after the same
 * work as a wrong key, so that time does not tell which ids there are.
 */
static const struct kw_key *find_proved(
	const struct kw_handshake *handshake, const uint8_t proof[KW_PROOF_BYTES])
{
	static const uint8_t nobodys[32];
	const struct kw_key *keys[KW_KEY_LINES_MAX], *proved = NULL;
	size_t count = find_keys(handshake, keys);
	uint8_t expected[KW_PROOF_BYTES];

	for (size_t i = 0; i < KW_KEY_LINES_MAX; i++) {
		bool known = i < count;

		prove(handshake, known ? keys[i]->secret : kw_slice(nobodys, sizeof nobodys), NULL,
			expected);
		if (memeql_sec(expected, proof, sizeof expected) && known)
			proved = keys[i];
	}
	return proved;
}

/* To a proxy that asks for nothing, zeros are the proof. */
static bool holds(struct kw_handshake *handshake, const uint8_t proof[KW_PROOF_BYTES])
{
	struct kw_identity *identity = &handshake->identity;
	const struct kw_key *key;

	identity->role = (enum kw_role)handshake->hello.role;
	if (!needs_key(handshake))
		return all_zero(proof, KW_PROOF_BYTES);
	key = find_proved(handshake, proof);
	if (!key)
		return false;
	identity->proved = KW_PROVED_KEY;
	memcpy(identity->key_id, key->id, sizeof identity->key_id);
	memcpy(identity->key_digest, key->digest, sizeof identity->key_digest);
	return true;
}

static int hear_proof(struct kw_handshake *handshake, size_t length)
{
	struct kw_proof proof;

	if (length != sizeof proof)
		return broken(handshake, "a PROOF of the wrong length");
	memcpy(&proof, handshake->input, sizeof proof);
	if (!holds(handshake, proof.proof))
		return kw_handshake_refuse(handshake, KW_REFUSE_SECRET_UNKNOWN, 0);
	if (!kw_identity_agrees(&handshake->identity))
		return kw_handshake_refuse(handshake, KW_REFUSE_PRINCIPAL, 0);
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
	if (challenge->version != KW_WIRE_VERSION || (challenge->flags & ~KW_WIRE_PROVES) != 0 ||
		!all_zero(challenge->reserved, sizeof challenge->reserved))
		return broken(handshake, "the proxy sent a CHALLENGE of the wrong form");
	if (challenge->layout_version != handshake->layout_version) {
		kw_error_set(&handshake->error, KW_E_REFUSED,
			"the proxy's table has layout version %u, this agent reads %u: upgrade %s",
			challenge->layout_version, handshake->layout_version,
			challenge->layout_version > handshake->layout_version ? "this agent"
									      : "the proxy");
		return fail(handshake);
	}
	if (handshake->secret.length > 0 && !(challenge->flags & KW_WIRE_PROVES)) {
		kw_error_set(&handshake->error, KW_E_REFUSED,
			"the proxy has no secret to prove, but auth.secret_file is set here: set "
			"it on the "
			"proxy too, or remove it here");
		return fail(handshake);
	}
	prove(handshake, handshake->secret, NULL, proof.proof);
	queue_output(handshake, &proof, sizeof proof);
	kw_sm_move(&handshake->sm, KW_HANDSHAKE_WELCOME_WAIT, "");
	return 0;
}

/* An agent that wished for nothing finds no answer to it. */
static uint32_t welcome_flags(const struct kw_handshake *handshake)
{
	return KW_WIRE_SCOPED | (handshake->compress ? KW_WIRE_COMPRESSION_MASK : 0) |
	       (handshake->sleeps ? KW_WIRE_WAKES : 0);
}

static int hear_welcome(struct kw_handshake *handshake, size_t length)
{
	uint8_t expected[KW_PROOF_BYTES];
	struct kw_welcome welcome;

	if (length != sizeof welcome)
		return broken(handshake, "the proxy sent a WELCOME of the wrong length");
	memcpy(&welcome, handshake->input, sizeof welcome);
	prove(handshake, handshake->secret, &welcome, expected);
	if (!memeql_sec(expected, welcome.proof, sizeof expected)) {
		kw_error_set(&handshake->error, KW_E_REFUSED,
			"the proxy could not prove that it knows the secret: auth.secret_file must "
			"hold the "
			"same bytes on both sides");
		return fail(handshake);
	}
	if ((welcome.flags & ~welcome_flags(handshake)) != 0 || welcome.depth == 0 ||
		welcome.extent.offset != 0 || welcome.extent.length < sizeof(struct kw_superblock))
		return broken(handshake, "the proxy sent a WELCOME that makes no sense");
	handshake->facts = (struct kw_handshake_facts){
		.epoch = welcome.epoch,
		/* A proxy of a later version may grant more than was asked for. */
		.depth = welcome.depth < handshake->depth ? welcome.depth : handshake->depth,
		.scoped = welcome.flags & KW_WIRE_SCOPED,
		.compression = (enum kw_compression)(
			(welcome.flags & KW_WIRE_COMPRESSION_MASK) >> KW_WIRE_COMPRESSION_SHIFT),
		.wakes = welcome.flags & KW_WIRE_WAKES,
		.extent = welcome.extent,
		.memory_device = welcome.memory_device,
		.memory_inode = welcome.memory_inode,
		.session = welcome.session,
	};
	kw_sm_move(&handshake->sm, KW_HANDSHAKE_DONE, "");
	return 0;
}

static int hear_refuse(struct kw_handshake *handshake, size_t length)
{
	struct kw_refuse refuse;

	if (length != sizeof refuse)
		return broken(handshake, "the proxy sent a REFUSE of the wrong length");
	memcpy(&refuse, handshake->input, sizeof refuse);
	kw_refusal_heard(handshake, &refuse, &handshake->error);
	return fail(handshake);
}

/* The first bytes of a record of TLS: its type, and the version (RFC 8446, 5.1). */
static bool is_tls(const uint8_t *input, uint8_t type)
{
	return input[0] == type && input[1] == 3;
}

/* Bytes that are no message due now. */
static const char *strange(const struct kw_handshake *handshake)
{
	if (is_tls(handshake->input, 0x16))
		return "a greeting of TLS: the agent dials tcp+tls://, and this address is tcp://";
	if (is_tls(handshake->input, 0x15))
		return "this address speaks TLS: use tcp+tls://";
	return "bytes that are no handshake message due now (is this address keywake's?)";
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
			return broken(handshake, strange(handshake));
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
		.flags = (facts->scoped ? KW_WIRE_SCOPED : 0) | (facts->wakes ? KW_WIRE_WAKES : 0) |
			 (uint32_t)facts->compression << KW_WIRE_COMPRESSION_SHIFT,
		.extent = facts->extent,
		.memory_device = facts->memory_device,
		.memory_inode = facts->memory_inode,
		.session = facts->session,
	};
	const struct kw_identity *identity = &handshake->identity;
	const struct kw_key *key = NULL;

	assert(handshake->compress || facts->compression == KW_COMPRESSION_UNTOLD);
	assert(handshake->sleeps || !facts->wakes);
	if (needs_key(handshake)) {
		key = kw_keyring_proved(
			*handshake->keyring, identity->key_id, identity->key_digest);
		if (!key) {
			(void)kw_handshake_refuse(handshake, KW_REFUSE_SECRET_UNKNOWN, 0);
			return;
		}
	}
	prove(handshake, key ? key->secret : (struct kw_slice){0}, &welcome, welcome.proof);
	handshake->facts = *facts;
	queue_output(handshake, &welcome, sizeof welcome);
	kw_sm_move(&handshake->sm, KW_HANDSHAKE_DONE, "");
}
