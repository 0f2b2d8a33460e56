#include "base/log.h"

#include "base/clock.h"
#include "base/log_ring.h"
#include "base/printable.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};
static const int journal_priorities[] = {3, 4, 6, 7, 7}; /* sd-daemon(3) */
#define LEVELS ((int)(sizeof level_names / sizeof *level_names))

static _Atomic int threshold = KW_LOG_INFO;
static kw_log_tap tap;
static void *tap_arg;
static pthread_t tap_thread;
static kw_log_journal journal;

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kw_log_ring kept;
static void (*watch)(void *arg);
static void *watch_arg;

void kw_log_set_level(enum kw_log_level level)
{
	atomic_store(&threshold, (int)level);
}

enum kw_log_level kw_log_level(void)
{
	return (enum kw_log_level)atomic_load(&threshold);
}

int kw_log_level_parse(const char *word)
{
	for (int i = 0; i < LEVELS; i++)
		if (strcmp(word, level_names[i]) == 0)
			return i;
	return -1;
}

const char *kw_log_level_name(enum kw_log_level level)
{
	return (int)level < LEVELS ? level_names[level] : "unknown";
}

void kw_log_set_tap(kw_log_tap fn, void *arg)
{
	tap = fn;
	tap_arg = arg;
	tap_thread = pthread_self();
}

void kw_log_set_journal(kw_log_journal fn)
{
	journal = fn;
}

int kw_log_priority(enum kw_log_level level)
{
	return journal_priorities[level];
}

static int prefix(char *out, size_t size, enum kw_log_level level)
{
	struct timespec now;
	struct tm tm;
	char stamp[32];

	if (getenv("JOURNAL_STREAM"))
		return snprintf(out, size, "<%d>", journal_priorities[level]);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
	return snprintf(
		out, size, "%s.%03ldZ %-5s ", stamp, now.tv_nsec / 1000000, level_names[level]);
}

/* One write a line keeps lines of several threads apart; a lost log line is not an error. */
static bool write_line(enum kw_log_level level, const char *where, const char *text)
{
	char line[KW_LOG_TEXT + 128];
	int length = prefix(line, sizeof line, level);

	length += snprintf(line + length, sizeof line - (size_t)length, "%s: %s\n", where, text);
	if (length >= (int)sizeof line)
		length = (int)sizeof line - 1;
	return write(STDERR_FILENO, line, (size_t)length) >= 0;
}

static void keep(enum kw_log_level level, const char *where, const char *text)
{
	pthread_mutex_lock(&kept_lock);
	kw_log_ring_add(&kept, kw_wall_us(), level, where, text);
	if (watch)
		watch(watch_arg);
	pthread_mutex_unlock(&kept_lock);
}

bool kw_log_kept(uint64_t from, struct kw_log_line *line)
{
	bool found;

	pthread_mutex_lock(&kept_lock);
	found = kw_log_ring_get(&kept, from, line);
	pthread_mutex_unlock(&kept_lock);
	return found;
}

void kw_log_set_watch(void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&kept_lock);
	watch = fn;
	watch_arg = arg;
	pthread_mutex_unlock(&kept_lock);
}

static void emit(enum kw_log_level level, const char *where, const struct kw_log_fields *fields,
	const char *raw)
{
	char text[KW_LOG_TEXT];

	kw_printable(text, sizeof text, kw_slice(raw, kw_printable_whole(raw, strlen(raw))),
		KW_NEWLINE_ESCAPED);
	keep(level, where, text);
	if (!(journal && journal(level, where, text, fields)) && !write_line(level, where, text))
		return;
	if (tap && pthread_equal(tap_thread, pthread_self()))
		tap(tap_arg, level, where, text);
}

static bool is_wanted(enum kw_log_level level)
{
	assert((int)level >= 0 && (int)level < LEVELS);
	return (int)level <= atomic_load(&threshold);
}

void kw_log(enum kw_log_level level, const char *where, const char *format, ...)
{
	const struct kw_log_fields none = {.database = -1};
	char raw[KW_LOG_TEXT];
	va_list args;

	if (!is_wanted(level))
		return;
	va_start(args, format);
	vsnprintf(raw, sizeof raw, format, args);
	va_end(args);
	emit(level, where, &none, raw);
}

void kw_log_database(
	enum kw_log_level level, const char *where, uint32_t database, const char *format, ...)
{
	const struct kw_log_fields fields = {.database = database};
	char raw[KW_LOG_TEXT];
	va_list args;

	if (!is_wanted(level))
		return;
	va_start(args, format);
	vsnprintf(raw, sizeof raw, format, args);
	va_end(args);
	emit(level, where, &fields, raw);
}

void kw_log_state(enum kw_log_level level, const char *where, const char *state, const char *code,
	const char *reason)
{
	const struct kw_log_fields fields = {state, code, -1};
	char raw[KW_LOG_TEXT];

	if (!is_wanted(level))
		return;
	if (*reason)
		snprintf(raw, sizeof raw, "%s: %s [%s]", state, reason, code);
	else
		snprintf(raw, sizeof raw, "%s", state);
	emit(level, where, &fields, raw);
}
