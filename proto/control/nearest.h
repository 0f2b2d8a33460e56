/*
 * The nearest known word to one that is not known, for "did you mean": configuration keys, method
 * names, commands. Pure; any thread.
 */
#ifndef KW_CONTROL_NEAREST_H
#define KW_CONTROL_NEAREST_H

#include <stddef.h>

struct kw_nearest {
	const char *word;
	const char *best;
	size_t distance; /* of best */
};

void kw_nearest_init(struct kw_nearest *nearest, const char *word);

/* Offer a candidate; it must outlive the struct. */
void kw_nearest_try(struct kw_nearest *nearest, const char *candidate);

/*
 * As kw_nearest_try, and the part after the candidate's last dot is compared alone, too: "address"
 * can stand for "redis.address".
 */
void kw_nearest_try_path(struct kw_nearest *nearest, const char *candidate);

/* The best candidate, or NULL when none is near enough to be worth a mention. */
const char *kw_nearest_word(const struct kw_nearest *nearest);

#endif
