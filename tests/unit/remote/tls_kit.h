/* Certificates and contexts for tests of tcp+tls. */
#ifndef KW_TEST_REMOTE_TLS_KIT_H
#define KW_TEST_REMOTE_TLS_KIT_H

#include "../tls/certificates.h"
#include "tls/context.h"

/* Made once; ca has signed all but those of the stranger. */
struct tls_kit {
	struct certificate ca, other_ca, proxy, edge, other_edge, expired, stranger;
};

extern struct tls_kit kit;
void kit_make(void);
void kit_free(void);

/* crl: PEM text; NULL: none. */
struct kw_tls_context *kit_server(const struct certificate *ca, const char *crl);
/* shown: NULL: none. */
struct kw_tls_context *kit_client(const struct certificate *ca, const struct certificate *shown);

#endif
