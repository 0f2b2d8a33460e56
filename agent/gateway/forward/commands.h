/*
 * Which commands of clients go to the primary.
 *
 * All clients share the connections to the primary. So a command must neither wait, nor change what
 * the connection is: that would hold up, or change, the requests of all others. Those that
 * administer the server are refused, too: the gateway's user on the primary is not the client's.
 * Scripts are forwarded: a blocking command does not block within one.
 *
 * A command that is not in the tables is refused: it could wait, or change the connection. Its name
 * alone does not tell, and the session knows no permissions for it either.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_GATEWAY_FORWARD_COMMANDS_H
#define KW_AGENT_GATEWAY_FORWARD_COMMANDS_H

#include "base/slice.h"

#include <stddef.h>

enum kw_forward_class {
	KW_FORWARD_READS,   /* changes no key */
	KW_FORWARD_WRITES,  /* can change keys: the client's reads must see it (own.h) */
	KW_FORWARD_REFUSED, /* why says the reason and the remedy */
	KW_FORWARD_UNKNOWN, /* not in the tables; why as for REFUSED */
};

struct kw_forward_verdict {
	enum kw_forward_class class;
	const char *why; /* goes after the command's name; NULL unless refused or unknown */
};

/* A request; its first word is the command's name, in any case. count > 0. */
struct kw_forward_verdict kw_forward_may(const struct kw_slice *words, size_t count);

#endif
