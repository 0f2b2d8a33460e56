/* What a terminal sends, as keys: single bytes, and sequences of ECMA-48 that come in pieces. Pure.
 */
#ifndef KW_CTL_TOP_KEYS_H
#define KW_CTL_TOP_KEYS_H

enum top_key {
	TOP_KEY_NONE, /* not a key of ours, or a sequence that is not at its end */
	TOP_KEY_SORT_NEXT,
	TOP_KEY_SORT_BACK,
	TOP_KEY_REVERSE,
	TOP_KEY_PAUSE,
	TOP_KEY_UP,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_FIRST,
	TOP_KEY_LAST,
	TOP_KEY_REDRAW,
	TOP_KEY_QUIT,
};

/* Zeroed: between two keys. */
struct top_keys {
	enum { TOP_KEYS_PLAIN, TOP_KEYS_ESCAPE, TOP_KEYS_SEQUENCE } state;
	unsigned char parameter; /* of the sequence, if it is one byte; 0: none yet */
};

enum top_key top_keys_take(struct top_keys *keys, unsigned char byte);

#endif
