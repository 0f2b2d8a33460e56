/*
 * The log's lines in the journal's own protocol, with fields that can be asked for:
 *
 *     journalctl KEYWAKE_STATE=failed KEYWAKE_REASON_CODE=no_consent
 *     journalctl -u 'keywake-*' DATABASE=3
 *
 * PRIORITY, MESSAGE, SYSLOG_IDENTIFIER and KEYWAKE_PART are in each entry, KEYWAKE_STATE,
 * KEYWAKE_REASON_CODE and DATABASE where a line is about them. An entry is one datagram, and no
 * library is needed: systemd.io/JOURNAL_NATIVE_PROTOCOL. Any thread may log.
 */
#ifndef KW_CONTROL_JOURNAL_H
#define KW_CONTROL_JOURNAL_H

#include <stdbool.h>

/*
 * If standard error is the journal (JOURNAL_STREAM names it), let the log go there from now on. A
 * line that the journal does not take goes to standard error. identifier: outlives the process.
 */
void kw_journal_open(const char *identifier);

/* The same for a journal at this address. False: nobody listens there, and nothing has changed. */
bool kw_journal_connect(const char *path, const char *identifier);

/* No more; for tests. */
void kw_journal_close(void);

#endif
