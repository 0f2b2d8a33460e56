/*
 * What a refusal means, as a sentence for each end: the proxy logs the one, the agent shows the
 * other. Pure; any thread.
 */
#ifndef KW_REMOTE_REFUSAL_H
#define KW_REMOTE_REFUSAL_H

#include "base/error.h"
#include "remote/handshake.h"

#include <stdint.h>

/* At the proxy, about the agent of this handshake. */
void kw_refusal_given(const struct kw_handshake *handshake, enum kw_refusal reason, uint32_t limit,
	struct kw_error *error);

/* At the agent, with the remedy. A number that this build does not know is named. */
void kw_refusal_heard(const struct kw_handshake *handshake, const struct kw_refuse *refuse,
	struct kw_error *error);

#endif
