/*
 * Text of any origin, made safe for a log, a terminal and the service manager.
 *
 * What a server, an agent or a key's name says is bytes of others. They could move the cursor,
 * change colours, hide or reverse text, or begin a line of their own. Here each byte of these
 * becomes \xNN:
 *
 *   control characters of ASCII, and DEL      C1 (U+0080 to U+009F: U+009B begins what ESC [ does)
 *   marks that reverse text (bidi)            characters that show nothing (U+200B, U+FEFF, tags)
 *   line and paragraph separators             bytes that are no UTF-8 (overlong, surrogates, cut
 * off)
 *
 * All else stays as it is. A backslash stays, too: text that reads \x1b may have been these four
 * characters. Pure; any thread.
 */
#ifndef KW_BASE_PRINTABLE_H
#define KW_BASE_PRINTABLE_H

#include "base/slice.h"

#include <stddef.h>

/* What each byte that is shown as \xNN takes. */
#define KW_PRINTABLE_ESCAPE 4

enum kw_printable_newline {
	KW_NEWLINE_ESCAPED, /* everywhere, but for text of our own that has several lines */
	KW_NEWLINE_KEPT,
};

/*
 * Write raw to out as a string, at most size - 1 bytes and a zero byte; size is at least 1. What
 * does not fit is left out, from the first character that does not fit whole. Returns the bytes of
 * raw that were taken: a caller with more than fits goes on from there. With a size of 17 at least
 * one character fits.
 */
size_t kw_printable(char *out, size_t size, struct kw_slice raw, enum kw_printable_newline newline);

/*
 * The length of a text that was cut at any byte, without the beginning of a character at its end.
 * Text that is no UTF-8 there is not shortened.
 */
size_t kw_printable_whole(const char *text, size_t length);

#endif
