/*
 * The one test hook of writer and reader: the simulator turns off a rule of FORMAT.md, and must
 * then find a violation. The daemons never touch it. Everything here is for one thread.
 */
#ifndef KW_TABLE_FAULT_H
#define KW_TABLE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

struct kw_fault_hook {
	int rule; /* the rule that is left out, 1 to 7; 0: none */
	/*
	 * NULL, or: a superseded record must be marked by this word. True: the hook does it later.
	 */
	bool (*mark)(void *arg, uint64_t *word, uint64_t value);
	/* NULL, or: may a tombstone that is still needed be dropped now? */
	bool (*drop)(void *arg);
	void *arg;
};

extern struct kw_fault_hook kw_fault_hook;

static inline bool kw_fault_leaves_out(int rule)
{
	return kw_fault_hook.rule == rule;
}

static inline bool kw_fault_marks(uint64_t *word, uint64_t value)
{
	return kw_fault_hook.mark && kw_fault_hook.mark(kw_fault_hook.arg, word, value);
}

static inline bool kw_fault_drops(void)
{
	return kw_fault_hook.drop && kw_fault_hook.drop(kw_fault_hook.arg);
}

#endif
