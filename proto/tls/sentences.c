/* The second half of words.h: what a trouble is called. Knows nothing of OpenSSL. */
#include "tls/words.h"

#include <stddef.h>

static const char *or_else(const char *text, const char *other)
{
	return text && *text ? text : other;
}

static int unknown_ca(
	const struct kw_tls_terms *terms, const struct kw_tls_facts *facts, struct kw_error *error)
{
	if (!facts->ca || !*facts->ca)
		return kw_error_set(error, KW_E_REFUSED,
			"its certificate is not signed by a CA of this system: give the CA that "
			"signed it in %s.ca",
			terms->keys);
	return kw_error_set(error, KW_E_REFUSED,
		"its certificate is not signed by a CA of %s.ca (%s): give the CA that signed it",
		terms->keys, facts->ca);
}

/* What is wrong with the certificate that the peer showed. */
static int theirs(enum kw_tls_trouble trouble, const struct kw_tls_terms *terms,
	const struct kw_tls_facts *facts, struct kw_error *error)
{
	const char *keys = terms->keys;

	switch (trouble) {
	case KW_TLS_UNKNOWN_CA:
		return unknown_ca(terms, facts, error);
	case KW_TLS_EXPIRED:
		return kw_error_set(error, KW_E_REFUSED,
			"its certificate expired on %s: renew it there; check both clocks",
			or_else(facts->date, "a day before today"));
	case KW_TLS_NOT_YET_VALID:
		return kw_error_set(error, KW_E_REFUSED,
			"its certificate is not valid before %s: check both clocks",
			or_else(facts->date, "a later day"));
	case KW_TLS_WRONG_NAME:
		return kw_error_set(error, KW_E_REFUSED,
			"its certificate is for %s, not %s: set %s.server_name, or use one of "
			"these names",
			or_else(facts->names, "no name"), or_else(facts->host, "this host"), keys);
	case KW_TLS_REVOKED:
		return kw_error_set(error, KW_E_REFUSED,
			"its certificate is revoked (%s.crl): give it a new one", keys);
	case KW_TLS_OLD_CRL:
		return kw_error_set(error, KW_E_REFUSED,
			"its certificate cannot be looked up in %s.crl: %s; put a list of its CA "
			"there that is in date",
			keys, or_else(facts->detail, "no list of its CA"));
	case KW_TLS_WRONG_PURPOSE:
		return kw_error_set(error, KW_E_REFUSED,
			"its certificate is not made for this: its extendedKeyUsage must name "
			"serverAuth for a server and clientAuth for a client");
	case KW_TLS_WEAK:
		return kw_error_set(error, KW_E_REFUSED,
			"its certificate is too weak for this host's OpenSSL: %s; make one with "
			"RSA of 2048 bits or ECDSA, and SHA-256",
			or_else(facts->detail, "key or digest"));
	default:
		return kw_error_set(error, KW_E_REFUSED,
			"%s showed no certificate, and one is demanded here: give it one that is "
			"signed by a CA of %s.ca",
			terms->peer, keys);
	}
}

/* What the peer says of our certificate. */
static int ours(enum kw_tls_trouble trouble, const struct kw_tls_terms *terms,
	const struct kw_tls_facts *facts, struct kw_error *error)
{
	const char *peer = terms->peer, *keys = terms->keys;

	switch (trouble) {
	case KW_TLS_WE_ARE_NOBODY:
		return kw_error_set(error, KW_E_REFUSED,
			"%s demands a client certificate: set %s.cert and %s.key (or %s there)",
			peer, keys, keys, terms->demand);
	case KW_TLS_OUR_CA_UNKNOWN:
		return kw_error_set(error, KW_E_REFUSED,
			"%s does not accept the CA of our certificate (%s.cert): add it to %s "
			"there",
			peer, keys, terms->trust);
	case KW_TLS_WE_EXPIRED:
		return kw_error_set(error, KW_E_REFUSED,
			"%s says that our certificate (%s.cert) expired: renew it, and reload; "
			"check both clocks",
			peer, keys);
	case KW_TLS_WE_ARE_REVOKED:
		return kw_error_set(error, KW_E_REFUSED,
			"%s says that our certificate (%s.cert) is revoked: get a new one, and "
			"reload",
			peer, keys);
	default:
		return kw_error_set(error, KW_E_REFUSED,
			"%s refused our certificate (%s.cert): see its log; is it signed by a CA "
			"of %s there, and made for clients (clientAuth)?",
			peer, keys, terms->trust);
	}
}

int kw_tls_say(enum kw_tls_trouble trouble, const struct kw_tls_terms *terms,
	const struct kw_tls_facts *facts, struct kw_error *error)
{
	const char *peer = terms->peer;

	switch (trouble) {
	case KW_TLS_PLAIN:
		return kw_error_set(error, KW_E_IO, "%s speaks no TLS: %s", peer, terms->plain);
	case KW_TLS_SILENT:
		return kw_error_set(error, KW_E_TIMEOUT,
			"no answer to the TLS greeting: does %s speak no TLS? Then %s", peer,
			terms->plain);
	case KW_TLS_SLOW:
		return kw_error_set(error, KW_E_TIMEOUT,
			"%s began the TLS handshake and did not finish it in time: it hangs, or "
			"the network is gone",
			peer);
	case KW_TLS_NOT_COMMON:
		return kw_error_set(error, KW_E_REFUSED,
			"%s has no version or cipher of TLS in common with us (%s): let it speak "
			"TLS 1.2 or 1.3",
			peer, or_else(facts->detail, "handshake failure"));
	case KW_TLS_CLOSED:
		return kw_error_set(error, KW_E_IO,
			"%s closed the connection in the TLS handshake: see its log; if it speaks "
			"no TLS, %s",
			peer, terms->plain);
	case KW_TLS_OTHER:
		return kw_error_set(error, KW_E_IO, "TLS: %s (see the log of %s)",
			or_else(facts->detail, "it failed"), peer);
	case KW_TLS_WE_ARE_NOBODY:
	case KW_TLS_OUR_CA_UNKNOWN:
	case KW_TLS_WE_EXPIRED:
	case KW_TLS_WE_ARE_REVOKED:
	case KW_TLS_OURS_REFUSED:
		return ours(trouble, terms, facts, error);
	default:
		return theirs(trouble, terms, facts, error);
	}
}
