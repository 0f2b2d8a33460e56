/* The keys that agents must prove, and the sessions whose key is there no more. */
#include "remote/server_internal.h"

#include <stdio.h>
#include <string.h>

#define WHY_TEXT 128

bool kw_server_keyed(const struct kw_server *server)
{
	return kw_keyring_count(server->keyring) > 0;
}

/* Why it may not stay, or NULL. */
static const char *objection(
	const struct kw_server *server, const struct kw_identity *identity, char text[WHY_TEXT])
{
	const char *id = identity->key_id;

	if (identity->proved == KW_PROVED_USER)
		return NULL;
	if (identity->proved == KW_PROVED_NOTHING)
		return kw_server_keyed(server) ? "a key is required now" : NULL;
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

bool kw_server_key_holds(const struct kw_server *server, const struct kw_identity *identity)
{
	char text[WHY_TEXT];

	return !objection(server, identity, text);
}

static uint32_t sessions_of(const struct kw_server *server, const char *id)
{
	uint32_t count = 0;

	for (const struct kw_session *at = server->sessions; at; at = at->next)
		count += at->sm.state == KW_SESSION_JOINED &&
			 at->identity.proved == KW_PROVED_KEY &&
			 strcmp(at->identity.key_id, id) == 0;
	return count;
}

static bool refuse(struct kw_handshake *handshake, enum kw_refusal reason, uint32_t limit)
{
	(void)kw_handshake_refuse(handshake, reason, limit);
	return true;
}

bool kw_server_refuses_key(struct kw_server *server, struct kw_handshake *handshake)
{
	const struct kw_identity *identity = &handshake->identity;
	const struct kw_key *key;

	if (identity->proved != KW_PROVED_KEY)
		return false;
	key = kw_keyring_proved(server->keyring, identity->key_id, identity->key_digest);
	if (!key)
		return refuse(handshake, KW_REFUSE_SECRET_UNKNOWN, 0);
	if (!kw_key_allows(&key->rules, handshake->channel.kind, identity->role))
		return refuse(handshake, KW_REFUSE_RULES, 0);
	/* No carrier enforces a scope yet: without it such a key would read everything. */
	if (kw_scope_narrow(&key->rules.scope))
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
		const char *why = objection(server, &at->identity, text);

		if (why && at->sm.state == KW_SESSION_JOINED) {
			kw_session_end(at, KW_FRAME_REVOKED, why);
			ended++;
		}
	}
	return ended;
}

uint32_t kw_server_set_keyring(struct kw_server *server, struct kw_keyring *keyring)
{
	struct kw_keyring *before = server->keyring;

	server->keyring = kw_keyring_hold(keyring);
	kw_keyring_release(before);
	return kw_server_check_keys(server);
}

int kw_server_revoke(
	struct kw_server *server, const char *id, uint32_t *ended, struct kw_error *error)
{
	if (kw_keyring_revoke(server->keyring, id) == 0)
		return kw_error_set(error, KW_E_GONE,
			"no key has the id %.*s; agents.list shows those in use", KW_KEY_ID_MAX,
			id);
	*ended = kw_server_check_keys(server);
	return KW_OK;
}
