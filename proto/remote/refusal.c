#include "remote/refusal.h"

#include <inttypes.h>
#include <string.h>

#define UNSEEN                                                                                     \
	"the agent's user cannot be seen from the proxy (a user namespace: PrivateUsers= or a "    \
	"container): set auth.secret_file on both sides"

/* Where a HELLO of version 0.1 has the agent's name. */
#define OLD_NAME_LENGTH 11
#define OLD_NAME 48

/* ---- at the proxy ---- */

/* The name in a HELLO of version 0.1, if it is one that may be shown. */
static void read_old_name(const struct kw_hello *hello, char name[KW_AGENT_NAME_MAX + 1])
{
	const uint8_t *bytes = (const uint8_t *)hello;
	size_t length = bytes[OLD_NAME_LENGTH];

	memset(name, 0, KW_AGENT_NAME_MAX + 1);
	if (length <= KW_AGENT_NAME_MAX)
		memcpy(name, bytes + OLD_NAME, length);
	if (!kw_agent_name_valid(name))
		strcpy(name, "(unnamed)");
}

/* Both numbers, of layout and handshake, only grow: who has the lower one is older. */
static const char *older_than_agent(unsigned agents, unsigned ours)
{
	return agents > ours ? "upgrade this proxy" : "upgrade that agent";
}

static const char *older_than_proxy(unsigned proxys, unsigned ours)
{
	return proxys > ours ? "upgrade this agent" : "upgrade the proxy";
}

static void version_given(const struct kw_handshake *handshake, struct kw_error *error)
{
	const struct kw_hello *hello = &handshake->hello;
	char name[KW_AGENT_NAME_MAX + 1];

	if (hello->version != KW_WIRE_VERSION_0_1) {
		kw_error_set(error, KW_E_REFUSED,
			"refused: the agent's handshake has version %u, this proxy's %d: "
			"%s",
			hello->version, KW_WIRE_VERSION,
			older_than_agent(hello->version, KW_WIRE_VERSION));
		return;
	}
	read_old_name(hello, name);
	kw_error_set(error, KW_E_REFUSED,
		"refused agent %s: it is of version 0.1, whose handshake can be relayed: upgrade "
		"it",
		name);
}

static void channel_given(
	const struct kw_handshake *handshake, const char *who, struct kw_error *error)
{
	char dialled[KW_CHANNEL_TEXT], arrived[KW_CHANNEL_TEXT];
	const struct kw_hello *hello = &handshake->hello;
	struct kw_channel said;
	bool known = kw_channel_decode(hello->carrier, hello->channel, &said);

	kw_channel_text(&said, dialled, sizeof dialled);
	kw_channel_text(&handshake->channel, arrived, sizeof arrived);
	if (!known || said.kind != handshake->channel.kind)
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: it dialled %s and arrived over %s: a relay stands "
			"between",
			who, dialled, arrived);
	else if (said.kind == KW_CHANNEL_SHM)
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: it dialled another socket file than this one: a relay "
			"stands between",
			who);
	else if (said.kind == KW_CHANNEL_TLS)
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: its TLS does not end here: a relay stands between, or a "
			"program that ends TLS for it",
			who);
	else if (strcmp(dialled, arrived) != 0)
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: it dialled %s and arrived at %s: a relay, or a tunnel "
			"or forwarded port, whose address goes into auth.addresses",
			who, dialled, arrived);
	else
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: its queue pairs are not those of this connection: a "
			"relay stands between",
			who);
}

static void secret_given(
	const struct kw_handshake *handshake, const char *who, struct kw_error *error)
{
	const struct kw_hello *hello = &handshake->hello;

	if (hello->key_id_length == 0)
		kw_error_set(error, KW_E_REFUSED, "refused agent %s: unknown secret", who);
	else
		kw_error_set(error, KW_E_REFUSED, "refused agent %s: unknown secret for key %.*s",
			who, hello->key_id_length, hello->key_id);
}

void kw_refusal_given(const struct kw_handshake *handshake, enum kw_refusal reason, uint32_t limit,
	struct kw_error *error)
{
	const char *who = handshake->name[0] ? handshake->name : "(unnamed)";

	switch (reason) {
	case KW_REFUSE_VERSION:
		version_given(handshake, error);
		break;
	case KW_REFUSE_SECRET_UNKNOWN:
		secret_given(handshake, who, error);
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
	case KW_REFUSE_CHANNEL:
		channel_given(handshake, who, error);
		break;
	case KW_REFUSE_SCOPE:
		kw_error_set(error, KW_E_REFUSED,
			"refused %s %s: its key %s has databases= or prefix=, which only agents "
			"over "
			"tcp or tcp+tls can have: use another key, or run one proxy for each "
			"scope, "
			"by source.databases",
			kw_role_name(handshake->identity.role), who, handshake->identity.key_id);
		break;
	case KW_REFUSE_PEER:
		if (limit == KW_REFUSE_PEER_UNSEEN)
			kw_error_set(error, KW_E_REFUSED,
				"refused agent %s: it gave no secret, and " UNSEEN, who);
		else
			kw_error_set(error, KW_E_REFUSED,
				"refused agent %s: it gave no secret, and its uid %" PRIu32
				" is none of shm.users",
				who, limit);
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
	case KW_REFUSE_KEY_LIMIT:
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: there are %" PRIu32
			" sessions of its key (sessions= in auth.keys_file)",
			who, limit);
		break;
	case KW_REFUSE_TABLE:
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: it reads layout version %u, this table has %u: "
			"%s",
			who, handshake->hello.layout_version, handshake->layout_version,
			older_than_agent(
				handshake->hello.layout_version, handshake->layout_version));
		break;
	case KW_REFUSE_RULES:
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: its key %s does not allow this carrier or role "
			"(carriers= and role= in auth.keys_file)",
			who, handshake->identity.key_id);
		break;
	case KW_REFUSE_PRINCIPAL:
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: its certificate names %s and its key %s: both must name "
			"the same",
			who, handshake->identity.certificate, handshake->identity.key_id);
		break;
	case KW_REFUSE_REVOKED:
		kw_error_set(error, KW_E_REFUSED,
			"refused agent %s: %s is revoked until the next reload", who,
			kw_identity_principal(&handshake->identity));
		break;
	}
}

/* ---- at the agent ---- */

static void version_heard(const struct kw_refuse *refuse, struct kw_error *error)
{
	if (refuse->version == KW_WIRE_VERSION_0_1)
		kw_error_set(error, KW_E_REFUSED,
			"the proxy is of version 0.1, whose handshake can be relayed: upgrade the "
			"proxy");
	else
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: its handshake has version %u, this agent's %d: "
			"%s",
			refuse->version, KW_WIRE_VERSION,
			older_than_proxy(refuse->version, KW_WIRE_VERSION));
}

static void channel_heard(const struct kw_handshake *handshake, struct kw_error *error)
{
	char dialled[KW_CHANNEL_TEXT];

	kw_channel_text(&handshake->channel, dialled, sizeof dialled);
	if (handshake->channel.kind == KW_CHANNEL_SHM)
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: this agent's socket file is not the proxy's: a relay "
			"stands between");
	else if (handshake->channel.kind == KW_CHANNEL_TLS)
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: this agent's TLS does not end at the proxy: a relay "
			"stands between, or a program that ends TLS for it: pass TLS through");
	else
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: this agent dialled %s, and arrived there by another "
			"address: a relay stands between; if that is your tunnel or forwarded "
			"port, add its address to auth.addresses of the proxy",
			dialled);
}

static void secret_heard(const struct kw_handshake *handshake, struct kw_error *error)
{
	const struct kw_hello *hello = &handshake->hello;

	if (hello->key_id_length == 0)
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: unknown secret: auth.secret_file must hold the same "
			"bytes on both sides");
	else
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: unknown secret: its auth.keys_file must have key %.*s "
			"with the secret of auth.secret_file",
			hello->key_id_length, hello->key_id);
}

void kw_refusal_heard(const struct kw_handshake *handshake, const struct kw_refuse *refuse,
	struct kw_error *error)
{
	kw_error_set(error, KW_E_REFUSED,
		"the proxy refused, for reason %u, which this build does not know", refuse->reason);
	switch ((enum kw_refusal)refuse->reason) {
	case KW_REFUSE_VERSION:
		version_heard(refuse, error);
		break;
	case KW_REFUSE_SECRET_UNKNOWN:
		secret_heard(handshake, error);
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
			refuse->limit);
		break;
	case KW_REFUSE_SHUTDOWN:
		kw_error_set(error, KW_E_REFUSED, "the proxy refused: it is shutting down");
		break;
	case KW_REFUSE_PROTOCOL:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: it did not understand this agent's handshake");
		break;
	case KW_REFUSE_CHANNEL:
		channel_heard(handshake, error);
		break;
	case KW_REFUSE_SCOPE:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: this key has databases= or prefix=, which only agents "
			"over tcp or tcp+tls can have: use another key, or run one proxy for each "
			"scope, by source.databases");
		break;
	case KW_REFUSE_PEER:
		if (refuse->limit == KW_REFUSE_PEER_UNSEEN)
			kw_error_set(error, KW_E_REFUSED, "the proxy refused: " UNSEEN);
		else
			kw_error_set(error, KW_E_REFUSED,
				"the proxy refused: our uid %" PRIu32
				" is none of its shm.users: add the user there, or set "
				"auth.secret_file on both sides",
				refuse->limit);
		break;
	case KW_REFUSE_NAME_LIMIT:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: it has %" PRIu32
			" sessions of this name already: give each agent another name, or raise "
			"remote.sessions_per_name there",
			refuse->limit);
		break;
	case KW_REFUSE_PEER_LIMIT:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: it has %" PRIu32
			" sessions of this host or user already: raise remote.sessions_per_peer "
			"there",
			refuse->limit);
		break;
	case KW_REFUSE_KEY_LIMIT:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: it has %" PRIu32
			" sessions of this key already: raise sessions= of the key in its "
			"auth.keys_file",
			refuse->limit);
		break;
	case KW_REFUSE_TABLE:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: its table has layout version %" PRIu32
			", this agent reads %u: %s",
			refuse->limit, handshake->layout_version,
			older_than_proxy(refuse->limit, handshake->layout_version));
		break;
	case KW_REFUSE_RULES:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: this key does not allow this carrier or role: see "
			"carriers= and role= in its auth.keys_file");
		break;
	case KW_REFUSE_PRINCIPAL:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: the certificate of tls.cert and auth.key_id name two: "
			"both must name the same");
		break;
	case KW_REFUSE_REVOKED:
		kw_error_set(error, KW_E_REFUSED,
			"the proxy refused: whom the certificate of tls.cert names is revoked");
		break;
	}
}
