/* A run of bytes owned by another object. Binary safe; data may be NULL only when length is 0. */
#ifndef KW_BASE_SLICE_H
#define KW_BASE_SLICE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct kw_slice {
	const void *data;
	size_t length;
};

static inline struct kw_slice kw_slice(const void *data, size_t length)
{
	assert(data || length == 0);
	return (struct kw_slice){data, length};
}

static inline struct kw_slice kw_slice_text(const char *text)
{
	return (struct kw_slice){text, strlen(text)};
}

static inline bool kw_slice_equal(struct kw_slice a, struct kw_slice b)
{
	return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

#endif
