/*
 * JSON as people write it in a file: with the comments of C, of one line or of several, and with a
 * comma after the last item. Pure; any thread.
 *
 *     {
 *         // Agents of this host, and those of the other.
 *         "listen": ["shm:///run/keywake/proxy.shm", "tcp://10.0.0.7:7471",],
 *     }
 *
 * jansson reads none of that, and everything else here is made of its values. So a pass before it
 * blanks what it would refuse. Lines and columns stay, so that its sentences name the place in the
 * file that the person sees.
 */
#ifndef KW_CONTROL_JSON_COMMENTS_H
#define KW_CONTROL_JSON_COMMENTS_H

#include <stdbool.h>
#include <stddef.h>

/* Both from 1. A column is a character of UTF-8, as jansson counts them. */
struct kw_json_place {
	size_t line, column;
};

enum kw_json_comments {
	KW_JSON_COMMENTS_NONE,     /* not a byte was changed */
	KW_JSON_COMMENTS_BLANKED,  /* comments, or last commas, became spaces */
	KW_JSON_COMMENTS_UNCLOSED, /* a comment that begins with a slash and a star has no end */
};

/*
 * Blank them in *length bytes of text, of any content. Each character of a comment becomes one
 * space, so text can only become shorter. Newlines stay. UNCLOSED: *open is where it begins, and
 * the text is not JSON. Everything that is not JSON besides is left for the parser to refuse.
 */
enum kw_json_comments kw_json_blank_comments(
	char *text, size_t *length, struct kw_json_place *open);

#endif
