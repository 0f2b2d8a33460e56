/* Lines of the log in the journal: their fields, and what becomes of them without a journal. */
#include "control/journal.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct fake {
	char path[64];
	int fd;
	char entry[8192];
};

static void open_fake(struct fake *fake)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(fake->path, sizeof fake->path, "/tmp/kw-journal-%d", (int)getpid());
	strcpy(address.sun_path, fake->path);
	unlink(fake->path);
	fake->fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	assert_int_equal(bind(fake->fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_true(kw_journal_connect(fake->path, "keywake-test"));
}

static void close_fake(struct fake *fake)
{
	kw_journal_close();
	close(fake->fd);
	unlink(fake->path);
}

static const char *next_entry(struct fake *fake)
{
	ssize_t length = recv(fake->fd, fake->entry, sizeof fake->entry - 1, MSG_DONTWAIT);

	fake->entry[length > 0 ? length : 0] = '\0';
	return fake->entry;
}

static void a_state_can_be_asked_for_by_state_and_code(void **state)
{
	struct fake fake;

	open_fake(&fake);
	kw_log_state(KW_LOG_ERROR, "agent", "failed", "no_consent", "2 keys of others");
	assert_string_equal(next_entry(&fake),
		"PRIORITY=3\nSYSLOG_IDENTIFIER=keywake-test\nKEYWAKE_PART=agent\n"
		"KEYWAKE_STATE=failed\nKEYWAKE_REASON_CODE=no_consent\n"
		"MESSAGE=agent: failed: 2 keys of others [no_consent]\n");
	close_fake(&fake);
}

static void a_line_about_a_database_names_it(void **state)
{
	struct fake fake;

	open_fake(&fake);
	kw_log_database(KW_LOG_WARN, "apply", 0, "quarantined");
	assert_string_equal(next_entry(&fake),
		"PRIORITY=4\nSYSLOG_IDENTIFIER=keywake-test\nKEYWAKE_PART=apply\nDATABASE=0\n"
		"MESSAGE=apply: quarantined\n");
	kw_log_info("agent", "ready");
	assert_null(strstr(next_entry(&fake), "DATABASE"));
	close_fake(&fake);
}

static void nothing_from_outside_can_forge_a_field(void **state)
{
	struct fake fake;

	open_fake(&fake);
	kw_log_state(KW_LOG_ERROR, "agent", "failed", "code", "x\nPRIORITY=7\nMESSAGE=forged");
	assert_null(strstr(next_entry(&fake), "\nMESSAGE=forged"));
	assert_non_null(strstr(fake.entry, "x\\x0aPRIORITY=7"));
	close_fake(&fake);
}

static void the_longest_line_is_one_entry(void **state)
{
	char large[8192];
	struct fake fake;

	memset(large, 'y', sizeof large - 1);
	large[sizeof large - 1] = '\0';
	open_fake(&fake);
	kw_log_info("agent", "%s", large);
	assert_non_null(strstr(next_entry(&fake), "MESSAGE=agent: yyy"));
	assert_int_equal(fake.entry[strlen(fake.entry) - 1], '\n');
	close_fake(&fake);
}

/* Standard error as a file that is read back. */
static void a_journal_that_is_gone_loses_no_line(void **state)
{
	FILE *file = tmpfile();
	int saved = dup(STDERR_FILENO);
	char text[256] = "";
	struct fake fake;

	open_fake(&fake);
	close(fake.fd);
	dup2(fileno(file), STDERR_FILENO);
	kw_log_info("agent", "still here");
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(file);
	assert_true(fread(text, 1, sizeof text - 1, file) > 0);
	assert_non_null(strstr(text, "agent: still here\n"));
	fclose(file);
	fake.fd = -1;
	close_fake(&fake);
}

static void there_is_no_journal_where_nobody_listens(void **state)
{
	assert_false(kw_journal_connect("/tmp/kw-journal-nobody", "keywake-test"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_state_can_be_asked_for_by_state_and_code),
		cmocka_unit_test(a_line_about_a_database_names_it),
		cmocka_unit_test(nothing_from_outside_can_forge_a_field),
		cmocka_unit_test(the_longest_line_is_one_entry),
		cmocka_unit_test(a_journal_that_is_gone_loses_no_line),
		cmocka_unit_test(there_is_no_journal_where_nobody_listens),
	};

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
