/* The terminal: colours, the progress bar, and one line that is drawn again and again. */
#include "ctl/ctl.h"

#include <langinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CURSOR_HIDE "\033[?25l"
#define CURSOR_SHOW "\033[?25h"
#define LINE_CLEAR "\r\033[K"
#define COLUMNS_DEFAULT 80
#define LINE_MAX_BYTES 1024

static volatile sig_atomic_t line_fd = -1; /* the line is drawn there */
static bool is_log;                        /* no terminal: each drawing is a line of its own */
static const char *volatile doomed;        /* a file that must not be left over */
static void (*volatile restore)(void);     /* the screen is given back by that */

bool ctl_can_steer(FILE *stream)
{
	const char *term = getenv("TERM");

	return isatty(fileno(stream)) && term && *term && strcmp(term, "dumb") != 0;
}

bool ctl_colour_wanted(FILE *stream)
{
	const char *no_colour = getenv("NO_COLOR"); /* no-color.org */

	return ctl_can_steer(stream) && !(no_colour && *no_colour);
}

const char *ctl_bold(const struct ctl *ctl)
{
	return ctl->colour ? "\033[1m" : "";
}

const char *ctl_colour_end(const struct ctl *ctl)
{
	return ctl->colour ? "\033[0m" : "";
}

enum ctl_mood ctl_state_mood(const char *state)
{
	static const char *const good[] = {"warm", "live", "serving", "standby"};
	/* "away" is what top says of a daemon that does not answer. */
	static const char *const bad[] = {
		"failed", "stalled", "source_down", "table_full", "held", "unconfirmed", "away"};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		if (strcmp(state, good[i]) == 0)
			return CTL_MOOD_GOOD;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (strcmp(state, bad[i]) == 0)
			return CTL_MOOD_BAD;
	return CTL_MOOD_PASSING;
}

const char *ctl_mood_grade(enum ctl_mood mood)
{
	static const char *const grades[] = {
		[CTL_MOOD_GOOD] = "good", [CTL_MOOD_PASSING] = "passing", [CTL_MOOD_BAD] = "bad"};

	return grades[mood];
}

enum ctl_mood ctl_mood_of(const json_t *object)
{
	const char *grade = json_string_value(json_object_get(object, "grade"));
	const char *state = json_string_value(json_object_get(object, "state"));

	for (int mood = CTL_MOOD_GOOD; grade && mood <= CTL_MOOD_BAD; mood++)
		if (strcmp(grade, ctl_mood_grade((enum ctl_mood)mood)) == 0)
			return (enum ctl_mood)mood;
	return ctl_state_mood(state ? state : "");
}

const char *ctl_mood_colour(const struct ctl *ctl, enum ctl_mood mood)
{
	static const char *const colours[] = {"\033[1;32m", "\033[1;33m", "\033[1;31m"};

	return ctl->colour ? colours[mood] : "";
}

const char *ctl_state_colour(const struct ctl *ctl, const char *state)
{
	return ctl_mood_colour(ctl, ctl_state_mood(state));
}

int ctl_columns(FILE *stream)
{
	struct winsize size;

	const char *given = getenv("COLUMNS");

	if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return given && atoi(given) > 0 ? atoi(given) : COLUMNS_DEFAULT;
}

const char *ctl_ellipsis(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 ? "…" : "~";
}

void ctl_bar(double progress, int columns, char *text, size_t size)
{
	bool blocks = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	size_t at = 0;
	int full;

	progress = progress < 0 ? 0 : progress > 1 ? 1 : progress;
	full = (int)(progress * columns);
	for (int i = 0; i < columns && at + 4 < size; i++) {
		const char *cell = i < full ? (blocks ? "█" : "#") : (blocks ? "░" : "-");

		at += (size_t)snprintf(text + at, size - at, "%s", cell);
	}
	/* Rounded down: 100 % is shown only when all is there. */
	snprintf(text + at, size - at, " %3d %%", (int)(progress * 100));
}

static void put(int fd, const char *text)
{
	/* If the terminal is gone, nothing can be done. */
	if (write(fd, text, strlen(text)) < 0)
		return;
}

/* Give the terminal back, then end by the signal as if it had not been caught. */
static void on_signal(int number)
{
	if (line_fd >= 0)
		put((int)line_fd, CURSOR_SHOW "\n");
	if (doomed)
		unlink(doomed);
	if (restore)
		restore();
	signal(number, SIG_DFL);
	raise(number);
}

static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT};
	struct sigaction action = {.sa_handler = on_signal};

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaction(numbers[i], &action, NULL);
}

void ctl_remove_on_signal(const char *path)
{
	doomed = path;
	if (path)
		catch_signals();
}

static void at_exit(void)
{
	ctl_line_end(true);
	if (restore)
		restore();
}

/* Before the first change to the terminal. */
static void prepare_the_end(void)
{
	static bool is_prepared;

	if (!is_prepared)
		atexit(at_exit);
	is_prepared = true;
	catch_signals();
}

void ctl_restore_at_end(void (*fn)(void))
{
	restore = fn;
	if (fn)
		prepare_the_end();
}

void ctl_line_begin(FILE *stream)
{
	if (line_fd >= 0)
		return;
	fflush(stream);
	line_fd = fileno(stream);
	is_log = !isatty((int)line_fd);
	if (is_log)
		return;
	prepare_the_end();
	put((int)line_fd, CURSOR_HIDE);
}

/* Colours are not used in such lines. */
void ctl_line_draw(const char *text)
{
	char line[LINE_MAX_BYTES];
	struct winsize size;
	int columns = COLUMNS_DEFAULT;

	if (line_fd < 0)
		return;
	if (is_log) {
		snprintf(line, sizeof line, "%s\n", text);
		put((int)line_fd, line);
		return;
	}
	if (ioctl((int)line_fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
		columns = size.ws_col;
	/* One short of the edge: a full line would wrap on some terminals. */
	snprintf(line, sizeof line, LINE_CLEAR "%.*s", (int)ctl_bytes_within(text, columns - 1),
		text);
	put((int)line_fd, line);
}

void ctl_line_end(bool keep)
{
	int fd = (int)line_fd;

	if (fd < 0)
		return;
	line_fd = -1;
	if (!is_log)
		put(fd, keep ? CURSOR_SHOW "\n" : LINE_CLEAR CURSOR_SHOW);
}
