/* What the peer's certificate says: why it was refused, and whose it is. */
#include "tls/internal.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define URI_SCHEME "keywake:"

static struct kw_slice text_of(const ASN1_STRING *string)
{
	return kw_slice(ASN1_STRING_get0_data(string), (size_t)ASN1_STRING_length(string));
}

static void add_name(char names[KW_TLS_NAMES_TEXT], const char *name, size_t length)
{
	size_t used = strlen(names);

	snprintf(names + used, KW_TLS_NAMES_TEXT - used, "%s%.*s", used > 0 ? ", " : "",
		(int)length, name);
	/* Others have made it: nothing in it may steer a terminal or begin a line. */
	for (char *at = names + used; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

static void add_number(char names[KW_TLS_NAMES_TEXT], struct kw_slice bytes)
{
	char number[INET6_ADDRSTRLEN];

	if (bytes.length == 4 || bytes.length == 16) {
		inet_ntop(
			bytes.length == 4 ? AF_INET : AF_INET6, bytes.data, number, sizeof number);
		add_name(names, number, strlen(number));
	}
}

/* All of its bytes, of which some can be zero; empty: there is none. */
static struct kw_slice common_name(X509 *certificate)
{
	const X509_NAME *subject = X509_get_subject_name(certificate);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

	if (at < 0)
		return kw_slice("", 0);
	return text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

void kw_tls_names_of(X509 *certificate, char names[KW_TLS_NAMES_TEXT])
{
	GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	struct kw_slice cn = common_name(certificate);

	*names = '\0';
	for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);

		if (name->type == GEN_DNS)
			add_name(names, text_of(name->d.dNSName).data,
				text_of(name->d.dNSName).length);
		else if (name->type == GEN_IPADD)
			add_number(names, text_of(name->d.iPAddress));
	}
	GENERAL_NAMES_free(all);
	if (*names == '\0')
		add_name(names, cn.data, cn.length);
}

static void print_date(const ASN1_TIME *time, char *to, size_t room)
{
	struct tm when;

	*to = '\0';
	if (ASN1_TIME_to_tm(time, &when))
		strftime(to, room, "%Y-%m-%d %H:%M:%S UTC", &when);
}

bool kw_tls_session_in_date(const SSL_SESSION *session)
{
	X509 *certificate = SSL_SESSION_get0_peer((SSL_SESSION *)session);

	return !certificate || X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0;
}

int kw_tls_on_verify(int ok, X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct kw_tls_channel *channel = SSL_get_app_data(ssl);
	X509 *certificate = X509_STORE_CTX_get_current_cert(store);

	if (ok)
		return ok;
	channel->verify_error = X509_STORE_CTX_get_error(store);
	if (!certificate)
		return ok;
	kw_tls_names_of(certificate, channel->names);
	print_date(channel->verify_error == X509_V_ERR_CERT_NOT_YET_VALID
			   ? X509_get0_notBefore(certificate)
			   : X509_get0_notAfter(certificate),
		channel->date, sizeof channel->date);
	return ok;
}

/* ---- whose it is ---- */

static bool is_id_byte(char byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
	       (byte >= '0' && byte <= '9') || (byte != '\0' && strchr("._*@-", byte));
}

static int take_id(
	struct kw_slice text, const char *field, char id[KW_TLS_ID_MAX + 1], struct kw_error *error)
{
	const char *bytes = text.data;

	if (text.length == 0 || text.length > KW_TLS_ID_MAX)
		return kw_error_set(error, KW_E_REFUSED,
			"the %s of its certificate has %zu bytes, and a name has 1 to %d", field,
			text.length, KW_TLS_ID_MAX);
	for (size_t i = 0; i < text.length; i++)
		if (!is_id_byte(bytes[i]))
			return kw_error_set(error, KW_E_REFUSED,
				"the %s of its certificate has other characters than letters, "
				"digits and . _ * @ -",
				field);
	memcpy(id, bytes, text.length);
	id[text.length] = '\0';
	return KW_OK;
}

/* The URI keywake:ID, else the first DNS name. False: there is neither. */
static bool find_san(const GENERAL_NAMES *all, struct kw_slice *text)
{
	bool found = false;

	for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);
		struct kw_slice uri;

		if (name->type == GEN_DNS && !found) {
			*text = text_of(name->d.dNSName);
			found = true;
		}
		if (name->type != GEN_URI)
			continue;
		uri = text_of(name->d.uniformResourceIdentifier);
		if (uri.length > strlen(URI_SCHEME) &&
			memcmp(uri.data, URI_SCHEME, strlen(URI_SCHEME)) == 0) {
			*text = kw_slice((const char *)uri.data + strlen(URI_SCHEME),
				uri.length - strlen(URI_SCHEME));
			return true;
		}
	}
	return found;
}

static int id_of(X509 *certificate, enum kw_tls_identity identity, char id[KW_TLS_ID_MAX + 1],
	struct kw_error *error)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	struct kw_slice text;
	int code;

	if (identity != KW_TLS_IDENTITY_CN && find_san(all, &text)) {
		code = take_id(text, "SAN", id, error);
	} else if (identity == KW_TLS_IDENTITY_SAN) {
		code = kw_error_set(error, KW_E_REFUSED,
			"its certificate names nobody: it has neither the SAN URI:keywake:ID nor "
			"a DNS name");
	} else {
		code = take_id(common_name(certificate), "CN", id, error);
	}
	GENERAL_NAMES_free(all);
	return code;
}

int kw_tls_channel_peer_id(const struct kw_tls_channel *channel, enum kw_tls_identity identity,
	char id[KW_TLS_ID_MAX + 1], struct kw_error *error)
{
	X509 *certificate = SSL_get1_peer_certificate(channel->ssl);
	int code;

	*id = '\0';
	if (!certificate)
		return kw_error_set(error, KW_E_REFUSED, "%s showed no certificate",
			channel->context->terms->peer);
	code = id_of(certificate, identity, id, error);
	X509_free(certificate);
	return code;
}
