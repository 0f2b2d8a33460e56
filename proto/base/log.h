/*
 * The daemons' log: lines on standard error, one event a line.
 *
 * Under systemd (JOURNAL_STREAM set) lines carry the journal's "<priority>" prefix and no time; in
 * a terminal or file they carry an UTC time and a level word. A journal that was set
 * (control/journal.h) gets each line first, with its fields. Control characters, and what else is
 * not plain text (printable.h), are shown as \xNN, so that nothing read from outside can forge a
 * line. Any thread may log.
 */
#ifndef KW_BASE_LOG_H
#define KW_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum kw_log_level { KW_LOG_ERROR, KW_LOG_WARN, KW_LOG_INFO, KW_LOG_DEBUG, KW_LOG_TRACE };

/* The level below which nothing is written; starts as KW_LOG_INFO. Safe while other threads log. */
void kw_log_set_level(enum kw_log_level level);
enum kw_log_level kw_log_level(void);

/* "error" … "trace" to a level; -1 when the word is none of them. */
int kw_log_level_parse(const char *word);
const char *kw_log_level_name(enum kw_log_level level);

/* Write one line; `where` is the part that speaks ("source", "agent", "control"). */
void kw_log(enum kw_log_level level, const char *where, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A line about one database of a server. */
void kw_log_database(enum kw_log_level level, const char *where, uint32_t database,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The line of a state, with its reason and the reason's code: "failed: no proxy [proxy_away]". */
void kw_log_state(enum kw_log_level level, const char *where, const char *state, const char *code,
	const char *reason);

/* What a line says besides its text, for a journal that keeps fields. */
struct kw_log_fields {
	const char *state, *code; /* NULL: it is about none */
	int64_t database;         /* -1: the same */
};

/*
 * Where lines go first: fn returns true if it took the line, and otherwise it is written to
 * standard error. text is printable. Set before other threads log; any thread calls it.
 */
typedef bool (*kw_log_journal)(enum kw_log_level level, const char *where, const char *text,
	const struct kw_log_fields *fields);
void kw_log_set_journal(kw_log_journal fn);
int kw_log_priority(enum kw_log_level level); /* as the journal counts: sd-daemon(3) */

/*
 * The last lines are kept in memory (log_ring.h), also those that could not be written. Numbers
 * begin with 1 at the start of the process. A line that was forgotten leaves a gap before the
 * number of the one that kw_log_kept gives. Any thread.
 */
#define KW_LOG_WHERE 32
#define KW_LOG_TEXT 2048

struct kw_log_line {
	uint64_t number, at_us; /* wall clock */
	enum kw_log_level level;
	char where[KW_LOG_WHERE];
	char text[KW_LOG_TEXT]; /* printable */
};

/* The first line that is kept, from this number on; false: there is none yet. */
bool kw_log_kept(uint64_t from, struct kw_log_line *line);

/*
 * Call fn after each line that is kept; NULL: nobody. Any thread calls it, under the lock of the
 * kept lines: it must neither log nor wait. After the return of this function the one that was set
 * before is not called any more.
 */
void kw_log_set_watch(void (*fn)(void *arg), void *arg);

/*
 * Also hand every line written to fn (events.subscribe uses this). One tap, set from the main
 * thread; it is called only for lines that the same thread logs.
 */
typedef void (*kw_log_tap)(void *arg, enum kw_log_level level, const char *where, const char *text);
void kw_log_set_tap(kw_log_tap fn, void *arg);

#define kw_log_error(where, ...) kw_log(KW_LOG_ERROR, where, __VA_ARGS__)
#define kw_log_warn(where, ...) kw_log(KW_LOG_WARN, where, __VA_ARGS__)
#define kw_log_info(where, ...) kw_log(KW_LOG_INFO, where, __VA_ARGS__)
#define kw_log_debug(where, ...) kw_log(KW_LOG_DEBUG, where, __VA_ARGS__)

#endif
