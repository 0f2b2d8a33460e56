/*
 * Does the link to the local server speak TLS? The server decides it by its tls-replication, for
 * all that it follows; the operator decides by apply.replica.tls what the agent does then.
 *
 *                     no                yes                    yes, before an agent set it to no
 *      follow         plain             TLS                    set to yes again, TLS
 *      switch         plain             set to no, plain       plain
 *      off            plain             refused                plain
 *
 * TLS needs a certificate of the agent's. The server is sent away from TLS only if the link does
 * not leave the host. Pure; any thread.
 */
#ifndef KW_AGENT_PRIMARY_LINK_TLS_H
#define KW_AGENT_PRIMARY_LINK_TLS_H

#include <stdbool.h>

/* apply.replica.tls */
enum kw_link_tls {
	KW_LINK_TLS_FOLLOW,
	KW_LINK_TLS_SWITCH,
	KW_LINK_TLS_OFF,
};

struct kw_link_tls_facts {
	bool replicates; /* tls-replication yes */
	bool switched;   /* it was, and an agent has set it to no */
	bool certified;  /* the agent has a certificate to show (tls.cert) */
	bool near;       /* the server is sent to an address that only its own host reaches */
};

enum kw_link_speech {
	KW_LINK_PLAIN,
	KW_LINK_TLS,
	/* It cannot stand: */
	KW_LINK_UNCERTIFIED, /* it must speak TLS, and there is no certificate */
	KW_LINK_FAR,         /* it may not be plain, because it leaves the host */
	KW_LINK_UNWANTED,    /* the server demands TLS, and the operator does not want it */
};

enum kw_link_speech kw_link_tls_judge(enum kw_link_tls wish, const struct kw_link_tls_facts *facts);

/* The sentence for a link that cannot stand; NULL: it can. Static. */
const char *kw_link_speech_remedy(enum kw_link_speech speech);

#endif
