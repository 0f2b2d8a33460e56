/*
 * notify-keyspace-events as a set of flags. Pure.
 *
 * CONFIG GET need not return the text that was set: servers put flags in an order of their own and
 * leave out those that A covers. So flags are compared and merged as sets, never as text.
 */
#ifndef KW_PROXY_FEED_FLAGS_H
#define KW_PROXY_FEED_FLAGS_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_FLAGS_TEXT 56 /* every flag once and the end */

/* One bit a letter: a–z, then A–Z, then $. If A is set, its classes count as set. */
typedef uint64_t kw_flags;

/* Characters that no server knows as a flag are left out. */
kw_flags kw_flags_parse(struct kw_slice text);

/* Do these raise keyevent notifications for every change of a key (A and E)? */
bool kw_flags_sufficient(kw_flags flags);

/* flags and what is needed, as text for CONFIG SET. */
void kw_flags_merged(kw_flags flags, char text[KW_FLAGS_TEXT]);

/*
 * The classes of A that a key of one's own can prove (notify/beat.h). It cannot prove those of
 * evictions (e) and of modules (d).
 */
enum kw_flag_class {
	KW_FLAG_STRING,
	KW_FLAG_GENERIC,
	KW_FLAG_LIST,
	KW_FLAG_SET,
	KW_FLAG_HASH,
	KW_FLAG_ZSET,
	KW_FLAG_STREAM,
	KW_FLAG_EXPIRED,
	KW_FLAG_CLASSES,
};

/* A set of classes: bits of enum kw_flag_class. */
typedef uint32_t kw_flag_classes;

#define KW_FLAG_CLASS(class) ((kw_flag_classes)1 << (class))
#define KW_FLAG_CLASSES_ALL (KW_FLAG_CLASS(KW_FLAG_CLASSES) - 1)

/* "hash" */
const char *kw_flag_class_name(enum kw_flag_class class);

/* "list (l), hash (h)" */
#define KW_FLAG_CLASSES_TEXT 112 /* all of them and the end */
void kw_flag_classes_text(kw_flag_classes classes, char text[KW_FLAG_CLASSES_TEXT]);

#endif
