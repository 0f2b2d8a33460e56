/*
 * Which of several tables is followed? They are those of the proxies that the operator listed for
 * one primary.
 *
 * A table counts if it was seen, and if it may be followed at all. Of two that count, the better
 * one is, in this order: confirmed; of the domain of the data's term; of the higher term; complete;
 * served by a proxy that reaches its server. If they are alike in all of that, the one that is
 * followed stays, and then the order of the list decides. If none counts, nothing changes.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_AUTHORITY_CHOOSE_H
#define KW_AGENT_AUTHORITY_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kw_choice {
	bool seen;        /* connected, something was read, and the heartbeat moves */
	bool allowed;     /* not refused, and not unconfirmed (history.h) */
	bool confirmed;   /* it has a mandate at present */
	bool same_domain; /* as the term of the data; or these have none */
	uint64_t term;    /* 0 without a mandate */
	bool complete;
	bool serves; /* its proxy reaches its server */
};

/* The index of the table to follow. current < count. */
size_t kw_choose(const struct kw_choice *tables, size_t count, size_t current);

#endif
