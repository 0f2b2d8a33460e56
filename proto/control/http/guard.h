/*
 * Who may ask what over HTTP. Pure; any thread.
 *
 * With a secret, a request proves it: by `Authorization: Bearer SECRET`, or as the password of the
 * user keywake (Basic). A unix socket and a loopback port may be without one. /healthz and /readyz
 * need no proof, for load balancers and kubelets; they tell a stranger a word and no sentence.
 *
 * A page of another site can make a browser of this host connect to a loopback port. Its scripts
 * read the answer if a name of their own resolves to 127.0.0.1 (DNS rebinding). The browser then
 * sends that name as Host. So a port without a secret answers only to a Host that is a number or
 * localhost. A secret needs no such rule: a browser sends it to no other name.
 */
#ifndef KW_CONTROL_HTTP_GUARD_H
#define KW_CONTROL_HTTP_GUARD_H

#include "base/slice.h"
#include "control/http/address.h"

#include <stdbool.h>

struct kw_http_guard {
	enum kw_http_reach reach;
	/* Empty: no secret. What a request sends after "Bearer " and "Basic ". */
	struct kw_slice bearer, basic;
};

enum kw_http_verdict {
	KW_HTTP_MAY,        /* ask everything */
	KW_HTTP_MAY_LITTLE, /* ask this, and be told no more than a word */
	KW_HTTP_UNPROVED,   /* 401 */
	KW_HTTP_MISLED,     /* 421: this is not the host that was meant */
};

/* Of one request. host, authorization: NULL if it has none, or several. */
struct kw_http_question {
	bool open; /* of /healthz and /readyz */
	const char *host;
	const char *authorization;
};

enum kw_http_verdict kw_http_judge(
	const struct kw_http_guard *guard, const struct kw_http_question *question);

/* secret: copied; empty: none. kw_http_guard_close wipes the copies. */
void kw_http_guard_init(
	struct kw_http_guard *guard, enum kw_http_reach reach, struct kw_slice secret);
void kw_http_guard_close(struct kw_http_guard *guard);

#endif
