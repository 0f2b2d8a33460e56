/*
 * The whole terminal, for as long as top runs: frames are drawn over each other, keys are read as
 * they are pressed, and at every end the terminal is as it was.
 *
 * Written with the few sequences that every terminal of today knows (ECMA-48, and DEC's private
 * modes 7, 25 and 1049), and not with ncurses. A frame is a list of lines: no windows, no colour
 * pairs, no capabilities that differ. ncurses would bring a database of terminals, which a
 * container image often lacks, and handlers of its own for the signals that term.c handles already.
 * Text would have a second way to the terminal beside the one that makes it printable. A terminal
 * that knows less (TERM=dumb, or none) gets one table, as a pipe does.
 *
 * One screen a process. Standard input and output must be a terminal.
 */
#ifndef KW_CTL_TOP_SCREEN_H
#define KW_CTL_TOP_SCREEN_H

#include "base/error.h"
#include "ctl/top/keys.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct top_size {
	int lines, columns;
};

/* Other sequences of frames can follow after leave. */
int top_screen_enter(struct kw_error *error);
void top_screen_leave(void);

struct top_size top_screen_size(void);

/*
 * One frame: a title, the body, a footer on the last line. The first line of the body stays; of the
 * others, those from `offset` on are shown. Returns the offset, not beyond what there is to scroll.
 */
struct top_frame {
	const char *title, *footer; /* without colours: they are cut to the width */
	const char *body;           /* lines that fit the width, each with its end */
	size_t offset;
};
size_t top_screen_draw(const struct top_frame *frame);

/* Lines of the body that fit, without its first. */
size_t top_screen_page(void);

enum top_woken {
	TOP_WOKEN_BY_TIME, /* or by one of the descriptors */
	TOP_WOKEN_BY_KEYS,
	TOP_WOKEN_BY_SIZE, /* another one, or the program was stopped: draw again */
	TOP_WOKEN_BY_END,  /* the terminal is gone */
};

/*
 * Wait until then (monotonic clock; UINT64_MAX: no limit), for one of the descriptors, or for the
 * terminal. fds has room for one more. Ctrl-Z stops the program in here, with the terminal given
 * back meanwhile.
 */
enum top_woken top_screen_wait(struct pollfd *fds, size_t count, uint64_t until_us);

/* The next key that has come; TOP_KEY_NONE: no more. */
enum top_key top_screen_key(void);

#endif
