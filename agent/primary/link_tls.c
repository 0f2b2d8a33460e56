#include "link_tls.h"

#include <assert.h>
#include <stddef.h>

static enum kw_link_speech judge_follow(const struct kw_link_tls_facts *facts)
{
	return facts->certified ? KW_LINK_TLS : KW_LINK_UNCERTIFIED;
}

enum kw_link_speech kw_link_tls_judge(enum kw_link_tls wish, const struct kw_link_tls_facts *facts)
{
	if (!facts->replicates && !facts->switched)
		return KW_LINK_PLAIN;
	switch (wish) {
	case KW_LINK_TLS_FOLLOW:
		return judge_follow(facts);
	case KW_LINK_TLS_SWITCH:
		return facts->near ? KW_LINK_PLAIN : KW_LINK_FAR;
	case KW_LINK_TLS_OFF:
		return facts->replicates ? KW_LINK_UNWANTED : KW_LINK_PLAIN;
	}
	assert(!"a wish that is none");
	return KW_LINK_UNWANTED;
}

const char *kw_link_speech_remedy(enum kw_link_speech speech)
{
	switch (speech) {
	case KW_LINK_PLAIN:
	case KW_LINK_TLS:
		return NULL;
	case KW_LINK_UNCERTIFIED:
		return "the local server replicates over TLS only (tls-replication yes), and this "
		       "agent has no certificate to show it: set tls.cert and tls.key, signed by a "
		       "CA of the server's tls-ca-cert-file, or apply.replica.tls=switch";
	case KW_LINK_FAR:
		return "the local server replicates over TLS only (tls-replication yes), and "
		       "apply.replica.tls=switch sends it to another host in plain bytes: use "
		       "apply.replica.tls=follow, or a loopback address in apply.replica.listen";
	case KW_LINK_UNWANTED:
		return "the local server replicates over TLS only (tls-replication yes), and "
		       "apply.replica.tls=off: use follow or switch there, set tls-replication no "
		       "in the server, or use apply.mode=commands";
	}
	assert(!"a speech that is none");
	return NULL;
}
