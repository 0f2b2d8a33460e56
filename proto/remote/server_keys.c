/* The keys that agents must prove, and the sessions whose key is there no more. */
#include "remote/server_internal.h"

#include <stdio.h>
#include <string.h>

#define WHY_TEXT 256

bool kw_server_keyed(const struct kw_server *server)
{
	return kw_keyring_count(server->keyring) > 0;
}

bool kw_server_certifies(const struct kw_server *server)
{
	return server->options.tls && kw_tls_context_verifies(server->options.tls);
}

static bool is_revoked(const struct kw_server *server, const char *id)
{
	for (int i = 0; i < server->revoked.count; i++)
		if (strcmp(server->revoked.ids[i], id) == 0)
			return true;
	return false;
}

/* Why its key does not let it stay, or NULL. */
static const char *key_objection(
	const struct kw_server *server, const struct kw_identity *identity, char text[WHY_TEXT])
{
	const char *id = identity->key_id;

	switch (kw_keyring_judge(server->keyring, id, identity->key_digest)) {
	case KW_KEY_HOLDS:
		return NULL;
	case KW_KEY_CHANGED:
		if (*id == '\0')
			return "the secret was replaced";
		snprintf(text, WHY_TEXT, "its key %s has another secret or other rules now", id);
		return text;
	case KW_KEY_GONE:
		break;
	}
	snprintf(text, WHY_TEXT, "its key%s%s was withdrawn", *id ? " " : "", id);
	return text;
}

/*
 * Was the certificate accepted by the present context, or is it now? judged_by: the context that
 * did so last. Once for each context: a signature takes time, and there can be many sessions.
 */
static int judge(const struct kw_server *server, const struct kw_tls_peer *certificate,
	const struct kw_tls_context *judged_by, struct kw_error *error)
{
	if (!certificate || !kw_server_certifies(server) || judged_by == server->options.tls)
		return KW_OK;
	return kw_tls_peer_judge(certificate, server->options.tls, error);
}

int kw_server_judge_arrival(
	const struct kw_server *server, const struct kw_arrival *arrival, struct kw_error *error)
{
	return judge(server, arrival->certificate, arrival->judged_by, error);
}

/* It holds by the present context. */
static void note_judged(const struct kw_server *server, struct kw_session *session)
{
	if (!session->certificate || !kw_server_certifies(server))
		return;
	kw_tls_context_unref(session->judged_by);
	session->judged_by = kw_tls_context_ref(server->options.tls);
}

/* The key whose rules hold for a certificate of its name; NULL: there is none. */
static const struct kw_key *find_named(
	const struct kw_server *server, const struct kw_identity *identity)
{
	return *identity->certificate ? kw_keyring_named(server->keyring, identity->certificate)
				      : NULL;
}

/* A key with an id brings its own rules. The one without leaves those of the certificate's name. */
static bool is_ruled_by_name(const struct kw_identity *identity)
{
	return *identity->certificate &&
	       (identity->proved == KW_PROVED_CERTIFICATE ||
		       (identity->proved == KW_PROVED_KEY && *identity->key_id == '\0'));
}

/* Of the rules that hold for a certificate's name; zero: none do. */
static void digest_rules(const struct kw_server *server, const struct kw_identity *identity,
	uint8_t digest[KW_KEY_DIGEST_BYTES])
{
	const struct kw_key *key = find_named(server, identity);

	if (key)
		memcpy(digest, key->rules_digest, KW_KEY_DIGEST_BYTES);
	else
		memset(digest, 0, KW_KEY_DIGEST_BYTES);
}

/* Why the rules for its certificate's name do not let it stay, or NULL. */
static const char *rules_objection(
	const struct kw_server *server, const struct kw_identity *identity, char text[WHY_TEXT])
{
	uint8_t digest[KW_KEY_DIGEST_BYTES];

	if (!is_ruled_by_name(identity))
		return NULL;
	digest_rules(server, identity, digest);
	if (memcmp(digest, identity->rules_digest, sizeof digest) == 0)
		return NULL;
	snprintf(text, WHY_TEXT, "the key %s has other rules now", identity->certificate);
	return text;
}

/* Why its certificate does not let it stay, or NULL. */
static const char *certificate_objection(
	const struct kw_server *server, const struct kw_session *session, char text[WHY_TEXT])
{
	struct kw_error error;

	if (!*session->identity.certificate)
		return NULL;
	if (is_revoked(server, session->identity.certificate)) {
		snprintf(text, WHY_TEXT, "%s was revoked", session->identity.certificate);
		return text;
	}
	if (judge(server, session->certificate, session->judged_by, &error) == 0)
		return rules_objection(server, &session->identity, text);
	snprintf(text, WHY_TEXT, "%.*s", WHY_TEXT - 1, error.text);
	return text;
}

/* Why it may not stay, or NULL. */
static const char *objection(
	const struct kw_server *server, const struct kw_session *session, char text[WHY_TEXT])
{
	const char *why = certificate_objection(server, session, text);

	if (why)
		return why;
	switch (session->identity.proved) {
	case KW_PROVED_USER:
	case KW_PROVED_CERTIFICATE:
		return NULL;
	case KW_PROVED_NOTHING:
		return kw_server_keyed(server) ? "a key is required now" : NULL;
	case KW_PROVED_KEY:
		break;
	}
	return key_objection(server, &session->identity, text);
}

bool kw_server_key_holds(const struct kw_server *server, const struct kw_session *session)
{
	char text[WHY_TEXT];

	return !objection(server, session, text);
}

static uint32_t sessions_of(const struct kw_server *server, const char *id)
{
	uint32_t count = 0;

	for (const struct kw_session *at = server->sessions; at; at = at->next)
		count += at->sm.state == KW_SESSION_JOINED &&
			 at->identity.proved >= KW_PROVED_KEY &&
			 strcmp(kw_identity_principal(&at->identity), id) == 0;
	return count;
}

static bool refuse(struct kw_handshake *handshake, enum kw_refusal reason, uint32_t limit)
{
	(void)kw_handshake_refuse(handshake, reason, limit);
	return true;
}

/* The key whose rules hold for it; NULL: none do. */
static const struct kw_key *rules_of(
	const struct kw_server *server, const struct kw_identity *identity)
{
	if (is_ruled_by_name(identity))
		return find_named(server, identity);
	return identity->proved == KW_PROVED_KEY
		       ? kw_keyring_proved(server->keyring, identity->key_id, identity->key_digest)
		       : NULL;
}

const struct kw_scope *kw_server_scope(
	const struct kw_server *server, const struct kw_identity *identity)
{
	const struct kw_key *key = rules_of(server, identity);

	return key && kw_scope_narrow(&key->rules.scope) ? &key->rules.scope : NULL;
}

/*
 * Only where the proxy itself answers READs can it hide records. A gateway looks keys up in the
 * index, which is hidden as a whole.
 */
static bool enforces(enum kw_channel_kind carrier, enum kw_role role)
{
	return (carrier == KW_CHANNEL_TCP || carrier == KW_CHANNEL_TLS) && role == KW_ROLE_AGENT;
}

bool kw_server_refuses_key(struct kw_server *server, struct kw_handshake *handshake)
{
	struct kw_identity *identity = &handshake->identity;
	const struct kw_key *key;

	if (is_revoked(server, identity->certificate))
		return refuse(handshake, KW_REFUSE_REVOKED, 0);
	if (identity->proved == KW_PROVED_KEY &&
		!kw_keyring_proved(server->keyring, identity->key_id, identity->key_digest))
		return refuse(handshake, KW_REFUSE_SECRET_UNKNOWN, 0);
	key = rules_of(server, identity);
	if (is_ruled_by_name(identity))
		digest_rules(server, identity, identity->rules_digest);
	if (!key)
		return false;
	if (!kw_key_allows(&key->rules, handshake->channel.kind, identity->role))
		return refuse(handshake, KW_REFUSE_RULES, 0);
	if (kw_scope_narrow(&key->rules.scope) &&
		!enforces(handshake->channel.kind, identity->role))
		return refuse(handshake, KW_REFUSE_SCOPE, 0);
	if (key->rules.sessions > 0 && sessions_of(server, key->id) >= key->rules.sessions)
		return refuse(handshake, KW_REFUSE_KEY_LIMIT, key->rules.sessions);
	return false;
}

uint32_t kw_server_check_keys(struct kw_server *server)
{
	uint32_t ended = 0;

	for (struct kw_session *at = server->sessions; at; at = at->next) {
		char text[WHY_TEXT];
		const char *why;

		if (at->sm.state != KW_SESSION_JOINED)
			continue;
		why = objection(server, at, text);
		if (why) {
			kw_session_end(at, KW_FRAME_REVOKED, why);
			ended++;
		} else {
			note_judged(server, at);
		}
	}
	return ended;
}

/*
 * Over these an agent is told rkeys: rdma has them from the start, and the directory is read over
 * tcp, too, but by keys with a scope. A mapping of shm shows them for as long as it stands.
 */
#define TELLS_RKEYS                                                                                \
	(UINT32_C(1) << KW_CHANNEL_RDMA | UINT32_C(1) << KW_CHANNEL_TCP |                          \
		UINT32_C(1) << KW_CHANNEL_TLS)

/*
 * Also if no session of it is there: its holder may have left with the rkeys. (One that is
 * disconnected, and keeps its key, would be told the new ones.)
 */
static void rotate(struct kw_server *server)
{
	if (server->kept && !kw_server_closing(server))
		server->kept_ops->rotate(server->kept);
}

uint32_t kw_server_set_keyring(struct kw_server *server, struct kw_keyring *keyring)
{
	struct kw_keyring *before = server->keyring;
	bool withdrawn = kw_keyring_withdraws(before, keyring, TELLS_RKEYS);
	uint32_t ended;

	server->keyring = kw_keyring_hold(keyring);
	kw_keyring_release(before);
	ended = kw_server_check_keys(server);
	if (withdrawn)
		rotate(server);
	return ended;
}

uint32_t kw_server_set_tls(
	struct kw_server *server, struct kw_tls_context *tls, enum kw_tls_identity identity)
{
	struct kw_tls_context *before = server->options.tls;
	uint32_t ended;

	server->options.tls = tls ? kw_tls_context_ref(tls) : NULL;
	server->options.identity = identity;
	kw_tls_context_unref(before);
	server->revoked.count = 0;
	ended = kw_server_check_keys(server);
	if (ended > 0)
		rotate(server);
	return ended;
}

size_t kw_server_expire_keys(struct kw_server *server, int64_t now_s, uint32_t *ended)
{
	bool withdrawn;
	size_t expired = kw_keyring_expire(server->keyring, now_s, TELLS_RKEYS, &withdrawn);

	*ended = expired > 0 ? kw_server_check_keys(server) : 0;
	if (withdrawn)
		rotate(server);
	return expired;
}

const struct kw_keyring *kw_server_keyring(const struct kw_server *server)
{
	return server->keyring;
}

/* Whom a certificate names so. False: there is no room. */
static bool revoke_name(struct kw_revoked *revoked, const char *id)
{
	if (revoked->count == KW_REVOKED_MAX)
		return false;
	snprintf(revoked->ids[revoked->count++], sizeof revoked->ids[0], "%s", id);
	return true;
}

static int explain_full(const struct kw_revocation *done, const char *id, struct kw_error *error)
{
	if (done->keys > 0)
		return kw_error_set(error, KW_E_STATE,
			"%s: its key is refused now, but a certificate of that name is not, as %d "
			"names are refused already: put their certificates into tls.crl, and "
			"reload",
			id, KW_REVOKED_MAX);
	return kw_error_set(error, KW_E_STATE,
		"%d names are refused already, and this one is not: put their certificates into "
		"tls.crl, and reload",
		KW_REVOKED_MAX);
}

int kw_server_revoke(struct kw_server *server, const char *id, struct kw_revocation *done,
	struct kw_error *error)
{
	bool by_name = kw_server_certifies(server) && strlen(id) <= KW_CERTIFICATE_ID_MAX;
	bool new_name = by_name && !is_revoked(server, id);
	bool withdrawn = new_name || kw_keyring_counts(server->keyring, id, TELLS_RKEYS);
	bool full;

	*done = (struct kw_revocation){.keys = (uint32_t)kw_keyring_revoke(server->keyring, id)};
	full = new_name && !revoke_name(&server->revoked, id);
	done->names = (uint32_t)server->revoked.count;
	done->sessions = kw_server_check_keys(server);
	if (withdrawn)
		rotate(server);
	if (full)
		return explain_full(done, id, error);
	if (done->keys == 0 && !by_name)
		return kw_error_set(error, KW_E_GONE,
			"no key has the id %.*s; agents.list shows those in use", KW_KEY_ID_MAX,
			id);
	return KW_OK;
}

/* Names are told for themselves: of the keys, those that are none of them. */
struct lifted {
	const struct kw_server *server;
	kw_key_id_fn tell;
	void *arg;
};

static void tell_key(void *arg, const char *id)
{
	const struct lifted *lifted = arg;

	if (!is_revoked(lifted->server, id))
		lifted->tell(lifted->arg, id);
}

void kw_server_each_lifted(const struct kw_server *server, const struct kw_keyring *after,
	kw_key_id_fn tell, void *arg)
{
	struct lifted lifted = {server, tell, arg};

	for (int i = 0; i < server->revoked.count; i++)
		tell(arg, server->revoked.ids[i]);
	kw_keyring_each_lifted(server->keyring, after, tell_key, &lifted);
}
