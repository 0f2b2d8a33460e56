#include "control/journal.h"

#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define JOURNAL "/run/systemd/journal/socket"
#define ENTRY_MAX 4096 /* a line of the log and its fields */

static int journal = -1;
static const char *name;

struct entry {
	char text[ENTRY_MAX];
	size_t length;
};

/* "NAME=value\n": the log has no control characters in its lines, and names of states have none. */
static void add(struct entry *entry, const char *field, const char *value)
{
	size_t room = sizeof entry->text - entry->length;
	int length = snprintf(entry->text + entry->length, room, "%s=%s\n", field, value);

	assert(!strchr(value, '\n'));
	if (length > 0 && (size_t)length < room)
		entry->length += (size_t)length;
}

static void add_number(struct entry *entry, const char *field, long long number)
{
	char text[24];

	snprintf(text, sizeof text, "%lld", number);
	add(entry, field, text);
}

static bool send_line(enum kw_log_level level, const char *where, const char *text,
	const struct kw_log_fields *fields)
{
	struct entry entry = {.length = 0};
	char message[ENTRY_MAX / 2 + 128];

	snprintf(message, sizeof message, "%s: %s", where, text);
	add_number(&entry, "PRIORITY", kw_log_priority(level));
	add(&entry, "SYSLOG_IDENTIFIER", name);
	add(&entry, "KEYWAKE_PART", where);
	if (fields->state)
		add(&entry, "KEYWAKE_STATE", fields->state);
	if (fields->code)
		add(&entry, "KEYWAKE_REASON_CODE", fields->code);
	if (fields->database >= 0)
		add_number(&entry, "DATABASE", fields->database);
	add(&entry, "MESSAGE", message);
	return send(journal, entry.text, entry.length, MSG_NOSIGNAL | MSG_DONTWAIT) ==
	       (ssize_t)entry.length;
}

bool kw_journal_connect(const char *path, const char *identifier)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	assert(journal < 0);
	if (strlen(path) >= sizeof address.sun_path)
		return false;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
		close(fd);
		return false;
	}
	journal = fd;
	name = identifier;
	kw_log_set_journal(send_line);
	return true;
}

void kw_journal_open(const char *identifier)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat found;

	/* A shell can have sent standard error elsewhere and kept the variable: systemd.exec(5). */
	if (stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
		fstat(STDERR_FILENO, &found) == 0 && found.st_dev == device &&
		found.st_ino == inode)
		kw_journal_connect(JOURNAL, identifier);
}

void kw_journal_close(void)
{
	kw_log_set_journal(NULL);
	if (journal >= 0)
		close(journal);
	journal = -1;
}
