#include "ctl/top/screen.h"

#include "base/clock.h"
#include "ctl/ctl.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* The other screen of the terminal, no cursor, no new line at the right edge; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define HOME "\033[H"
#define END_OF_LINE "\033[K"
#define END_OF_SCREEN "\033[J"
#define LINES_DEFAULT 24
#define FIXED_LINES 3 /* title, first line of the body, footer */
#define KEYS_BYTES 64

static struct termios before; /* the terminal as it was */
static volatile sig_atomic_t is_entered;
static volatile sig_atomic_t is_resized, is_to_stop;

static struct top_keys keys;
static unsigned char waiting[KEYS_BYTES]; /* bytes that were read and not taken */
static size_t waiting_at, waiting_count;

static void write_all(const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t put = write(STDOUT_FILENO, bytes, length);

		if (put < 0 && errno != EINTR)
			return; /* the terminal is gone: the wait finds that */
		if (put > 0) {
			bytes += put;
			length -= (size_t)put;
		}
	}
}

/* A signal handler can call it at any moment. */
void top_screen_leave(void)
{
	if (!is_entered)
		return;
	is_entered = 0;
	write_all(LEAVE, sizeof LEAVE - 1);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void on_resize(int number)
{
	is_resized = 1;
}

static void on_stop(int number)
{
	is_to_stop = 1;
}

/* They come while we wait, and at no other moment. */
static void catch_signals(void)
{
	struct sigaction resize = {.sa_handler = on_resize}, stop = {.sa_handler = on_stop};
	sigset_t held;

	sigaction(SIGWINCH, &resize, NULL);
	sigaction(SIGTSTP, &stop, NULL);
	/* Otherwise a process in the background could not give the terminal back. */
	signal(SIGTTOU, SIG_IGN);
	sigemptyset(&held);
	sigaddset(&held, SIGWINCH);
	sigaddset(&held, SIGTSTP);
	sigprocmask(SIG_BLOCK, &held, NULL);
}

int top_screen_enter(struct kw_error *error)
{
	struct termios raw;

	assert(!is_entered);
	if (tcgetattr(STDIN_FILENO, &before))
		return kw_error_errno(error, errno, "the terminal");
	ctl_restore_at_end(top_screen_leave);
	catch_signals();
	raw = before;
	/* Ctrl-C and Ctrl-Z stay signals. */
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	is_entered = 1;
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw))
		return kw_error_errno(error, errno, "the terminal");
	write_all(ENTER, sizeof ENTER - 1);
	return 0;
}

struct top_size top_screen_size(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_row == 0)
		size.ws_row = LINES_DEFAULT;
	return (struct top_size){size.ws_row, ctl_columns(stdout)};
}

/* ---- frames ---- */

static size_t count_lines(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

/* The beginning of the line after `lines` ends of lines. */
static const char *line_at(const char *text, size_t lines)
{
	while (lines > 0 && *text)
		lines -= *text++ == '\n';
	return text;
}

static void put_line(FILE *frame, const char *line, size_t length)
{
	fwrite(line, 1, length, frame);
	fputs(END_OF_LINE "\r\n", frame);
}

static void put_cut(FILE *frame, const char *text, int columns)
{
	fwrite(text, 1, ctl_bytes_within(text, columns), frame);
}

size_t top_screen_page(void)
{
	int lines = top_screen_size().lines;

	return lines > FIXED_LINES ? (size_t)(lines - FIXED_LINES) : 1;
}

/* The first line of the body, then those from `offset` on; `most` in all. */
static void put_body(FILE *stream, const struct top_frame *frame, size_t offset, int most)
{
	const char *line = frame->body;

	for (int shown = 0; shown < most && *line; shown++) {
		size_t length = strcspn(line, "\n");

		put_line(stream, line, length);
		line = shown == 0 ? line_at(frame->body, 1 + offset) : line_at(line, 1);
	}
}

/* No line end after the last line of the terminal: that would scroll. */
static void put_frame(FILE *stream, const struct top_frame *frame, size_t offset)
{
	const struct top_size size = top_screen_size();

	fputs(HOME, stream);
	put_cut(stream, frame->title, size.columns);
	fputs(END_OF_LINE, stream);
	if (size.lines < 2)
		return;
	fputs("\r\n", stream);
	put_body(stream, frame, offset, size.lines - 2);
	fprintf(stream, END_OF_SCREEN "\033[%d;1H", size.lines);
	put_cut(stream, frame->footer, size.columns);
	fputs(END_OF_LINE, stream);
}

size_t top_screen_draw(const struct top_frame *frame)
{
	size_t lines = count_lines(frame->body), page = top_screen_page();
	size_t rest = lines > 0 ? lines - 1 : 0;
	size_t last = rest > page ? rest - page : 0;
	size_t offset = frame->offset < last ? frame->offset : last;
	char *text = NULL;
	size_t length = 0;
	FILE *stream = open_memstream(&text, &length);

	if (!stream)
		return offset;
	put_frame(stream, frame, offset);
	if (fclose(stream) == 0)
		write_all(text, length);
	free(text);
	return offset;
}

/* ---- waiting ---- */

static void stop_here(void)
{
	struct kw_error ignored;

	is_to_stop = 0;
	top_screen_leave();
	kill(getpid(), SIGSTOP);
	/* Continued. If the terminal is gone, the wait finds that. */
	(void)top_screen_enter(&ignored);
}

static bool read_keys(void)
{
	ssize_t got = read(STDIN_FILENO, waiting, sizeof waiting);

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	waiting_at = 0;
	waiting_count = got > 0 ? (size_t)got : 0;
	return got > 0;
}

static struct timespec *time_until(uint64_t until_us, struct timespec *time)
{
	uint64_t now_us = kw_clock_us(), us = until_us > now_us ? until_us - now_us : 0;

	*time = (struct timespec){(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
	return until_us == UINT64_MAX ? NULL : time;
}

enum top_woken top_screen_wait(struct pollfd *fds, size_t count, uint64_t until_us)
{
	struct timespec time;
	sigset_t none;
	int ready;

	fds[count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
	sigemptyset(&none);
	ready = ppoll(fds, count + 1, time_until(until_us, &time), &none);
	if (is_to_stop) {
		stop_here();
		return TOP_WOKEN_BY_SIZE;
	}
	if (is_resized) {
		is_resized = 0;
		return TOP_WOKEN_BY_SIZE;
	}
	if (ready < 0 && errno != EINTR)
		return TOP_WOKEN_BY_END;
	if (ready <= 0 || !fds[count].revents)
		return TOP_WOKEN_BY_TIME;
	return read_keys() ? TOP_WOKEN_BY_KEYS : TOP_WOKEN_BY_END;
}

enum top_key top_screen_key(void)
{
	while (waiting_at < waiting_count) {
		enum top_key key = top_keys_take(&keys, waiting[waiting_at++]);

		if (key != TOP_KEY_NONE)
			return key;
	}
	return TOP_KEY_NONE;
}
