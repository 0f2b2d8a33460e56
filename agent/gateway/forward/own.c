#include "own.h"

#include <assert.h>

/* Does the table hold all that the client has written? */
static bool holds_its_writes(const struct kw_own *own, uint64_t covered_us)
{
	return own->writes == 0 && (own->wrote_us == 0 || own->wrote_us < covered_us);
}

enum kw_own_place kw_own_judge(const struct kw_own *own, const struct kw_own_facts *facts)
{
	if (facts->want == KW_OWN_READS_TABLE && holds_its_writes(own, facts->covered_us))
		return KW_OWN_TABLE;
	if (facts->want == KW_OWN_BARRIER)
		return own->forwarded > 0 ? KW_OWN_WAIT : KW_OWN_TABLE;
	if (own->forwarded > 0 && own->line != facts->line)
		return KW_OWN_WAIT;
	if (facts->want == KW_OWN_WRITES && facts->gets > 0)
		return KW_OWN_WAIT;
	return KW_OWN_PRIMARY;
}

void kw_own_sent(struct kw_own *own, uint32_t line, bool writes)
{
	assert(own->forwarded == 0 || own->line == line);
	own->line = line;
	own->forwarded++;
	own->writes += writes;
}

void kw_own_answered(struct kw_own *own, bool writes, uint64_t now_us)
{
	assert(own->forwarded > 0 && own->writes >= (uint32_t)writes);
	own->forwarded--;
	own->writes -= writes;
	if (writes && now_us > 0)
		own->wrote_us = now_us;
}
