/* A certificate that was accepted once, judged again by other CAs and lists. */
#include "base/buffer.h"
#include "tls/internal.h"

#include <assert.h>
#include <openssl/err.h>
#include <stdlib.h>

struct kw_tls_peer {
	X509 *certificate;
	STACK_OF(X509) * between; /* it and its CA; NULL: not known */
};

struct kw_tls_peer *kw_tls_channel_peer(const struct kw_tls_channel *channel)
{
	X509 *certificate = SSL_get1_peer_certificate(channel->ssl);
	STACK_OF(X509) *between = SSL_get_peer_cert_chain(channel->ssl);
	struct kw_tls_peer *peer;

	if (!certificate)
		return NULL;
	peer = kw_zalloc(sizeof *peer);
	peer->certificate = certificate;
	peer->between = between ? X509_chain_up_ref(between) : NULL;
	return peer;
}

void kw_tls_peer_free(struct kw_tls_peer *peer)
{
	if (!peer)
		return;
	sk_X509_pop_free(peer->between, X509_free);
	X509_free(peer->certificate);
	free(peer);
}

static int judge(const struct kw_tls_peer *peer, const struct kw_tls_context *context)
{
	X509_STORE_CTX *store = X509_STORE_CTX_new();
	int found = X509_V_ERR_OUT_OF_MEM;

	if (store && X509_STORE_CTX_init(store, SSL_CTX_get_cert_store(context->ssl),
			     peer->certificate, peer->between)) {
		X509_STORE_CTX_set_default(store, "ssl_client");
		found = X509_verify_cert(store) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(store);
	}
	X509_STORE_CTX_free(store);
	ERR_clear_error();
	return found;
}

int kw_tls_peer_judge(const struct kw_tls_peer *peer, const struct kw_tls_context *context,
	struct kw_error *error)
{
	const struct kw_tls_facts facts = {.ca = context->ca, .names = "", .date = ""};
	int found;

	assert(context->role == KW_TLS_SERVER);
	found = judge(peer, context);
	if (found == X509_V_OK)
		return KW_OK;
	return kw_tls_say(kw_tls_trouble_of_verify(found), context->terms, &facts, error);
}
